#!/bin/sh
# Builds llama-bench of the pinned source without our patches, once, and prints its folder: the other side of comparisons.
# One patch it needs: without cpu/keep-tile-config what GCC 12 makes of it dies on a CPU with AMX; elsewhere that code does not run.
set -eu
cd "$(dirname "$0")/.."
uv=$(packaging/setup.sh)
patch=engine/patches/cpu/keep-tile-config.patch
root="${XDG_CACHE_HOME:-$HOME/.cache}/kvarn/engine/stock-$(cat engine/upstream.toml "$patch" packaging/stock-engine.sh | cksum | cut -d ' ' -f 1)"
if [ ! -x "$root/build/bin/llama-bench" ]; then
    mkdir -p "$root"
    with="$uv run --quiet --no-project --with pip==26.3 --with scikit-build-core==1.1.2 --with cmake==4.4.5 --with ninja==1.13.2"
    sdist=$(PYTHONPATH=engine/backend $with python -c \
        'from kvarn_engine import pin; print(pin.fetch_sdist(pin.read_pin()))' | tail -n 1)
    tar -xzf "$sdist" -C "$root" --strip-components=1
    PYTHONPATH=engine/backend $with python -c 'import pathlib, sys; from kvarn_engine import series
series.apply_patch(pathlib.Path(sys.argv[1]), series.read_patch(sys.argv[2]))' "$root/vendor/llama.cpp" "${patch#engine/patches/}"
    echo "kvarn: building the unpatched engine in $root (minutes, once)" >&2
    $with cmake -S "$root/vendor/llama.cpp" -B "$root/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
        -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF \
        -DLLAMA_BUILD_APP=OFF -DLLAMA_OPENSSL=OFF >"$root/build.log" 2>&1
    $with cmake --build "$root/build" --target llama-bench >>"$root/build.log" 2>&1
fi
echo "$root/build/bin"
