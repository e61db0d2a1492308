#!/bin/sh
# Everything that can be proven without running the product: formatting, lint, types, layers, patches, pins.
set -eu
cd "$(dirname "$0")/.."
uv=$(packaging/setup.sh)
"$uv" run --quiet ruff format --check .
"$uv" run --quiet ruff check .
"$uv" run --quiet mypy
(cd app && ../.venv/bin/lint-imports ../pyproject.toml)
"$uv" run --quiet python engine/tools/patches.py check
"$uv" run --quiet python packaging/pins.py check
