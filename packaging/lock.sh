#!/bin/sh
# Resolves the newest versions and writes them, transitive ones too, into pyproject.toml.
set -eu
cd "$(dirname "$0")/.."
uv=$(packaging/uv.sh)
"$uv" run --quiet --no-project --with tomlkit python packaging/pins.py refresh --uv "$uv"
