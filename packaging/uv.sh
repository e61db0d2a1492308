#!/bin/sh
# Prints the path of a usable uv, installing the pinned one into a private environment if there is none.
# uv builds and locks everything else; nothing outside the user's cache folder is touched.
set -eu
UV_VERSION=0.13.9
private="${XDG_CACHE_HOME:-$HOME/.cache}/kvarn/uv-$UV_VERSION"

if command -v uv >/dev/null 2>&1; then
    command -v uv
    exit 0
fi
if [ ! -x "$private/bin/uv" ]; then
    echo "kvarn: installing uv $UV_VERSION into $private" >&2
    python3 -m venv "$private" >&2
    "$private/bin/pip" install --quiet --disable-pip-version-check "uv==$UV_VERSION" >&2
fi
echo "$private/bin/uv"
