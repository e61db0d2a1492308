#!/bin/sh
# Repairs what can be repaired by machine: lint fixes, import order, formatting.
set -eu
cd "$(dirname "$0")/.."
uv=$(packaging/setup.sh)
"$uv" run --quiet ruff format .
"$uv" run --quiet ruff check --fix .
"$uv" run --quiet ruff format .
