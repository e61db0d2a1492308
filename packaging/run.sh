#!/bin/sh
# Sets everything up, then opens the console. Without a display the starter model is served headless instead.
set -eu
cd "$(dirname "$0")/.."
uv=$(packaging/setup.sh)
if [ "$(uname -s)" = Linux ] && [ -z "${DISPLAY:-}${WAYLAND_DISPLAY:-}${QT_QPA_PLATFORM:-}" ]; then
    echo "kvarn: no display found; serving the starter model without a window (Ctrl-C stops it)" >&2
    exec "$uv" run --quiet kvarn serve starter
fi
exec "$uv" run --quiet kvarn
