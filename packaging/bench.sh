#!/bin/sh
# Prints what the console costs and what it does to the engine it watches. Run it on a machine at rest.
set -eu
cd "$(dirname "$0")/.."
uv=$(packaging/setup.sh)
[ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] || export QT_QPA_PLATFORM=offscreen
KVARN_HOME=$(mktemp -d)
export KVARN_HOME
trap 'rm -rf "$KVARN_HOME"' EXIT
for script in console_cost decode_attached telemetry_cost plan_estimate library; do
    echo "== $script"
    "$uv" run --quiet python "packaging/bench/$script.py"
done
