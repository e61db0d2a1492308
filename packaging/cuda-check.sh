#!/bin/sh
# Compiles our CUDA code for every architecture with nvcc, without a GPU, and runs its codecs on the host.
set -eu
cd "$(dirname "$0")/.."
uv=$(packaging/setup.sh)
exec "$uv" run --quiet --with pip==26.3 python packaging/cuda_check.py "$@"
