#!/bin/sh
# Sets everything up, then runs every test; arguments go to pytest.
set -eu
cd "$(dirname "$0")/.."
uv=$(packaging/setup.sh)
exec "$uv" run --quiet pytest "$@"
