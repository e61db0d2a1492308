#!/bin/sh
# Makes the checkout ready: system libraries, uv, Python packages and the engine (built once, then cached).
# Prints the path of uv on stdout for the scripts that call it.
set -eu
cd "$(dirname "$0")/.."
packaging/system-packages.sh
uv=$(packaging/uv.sh)
log="${XDG_CACHE_HOME:-$HOME/.cache}/kvarn/engine/build.log"

# uv hides what a build prints; the engine's build writes its progress to a log, shown here as it grows.
# Bytecode is written now: where Python may not write its own, every start would compile the libraries again (0.7 s).
"$uv" sync --quiet --compile-bytecode >&2 &
sync=$!
trap 'kill "$sync" 2>/dev/null || true' INT TERM
started=$(date +%s)
shown=""
while kill -0 "$sync" 2>/dev/null; do
    sleep 1
    [ -f "$log" ] && [ "$(stat -c %Y "$log" 2>/dev/null || echo 0)" -ge "$started" ] || continue
    line=$(tail -c 4096 "$log" | grep -aoE '^kvarn: .*|^\[[0-9]+/[0-9]+\]' | tail -n 1 || true)
    if [ "$line" = "$shown" ] || [ -z "$line" ]; then continue; fi
    shown=$line
    if [ -t 2 ]; then printf '\r\033[Kbuilding the engine: %s' "$line" >&2; fi
done
[ -t 2 ] && [ -n "$shown" ] && printf '\r\033[K' >&2
if ! wait "$sync"; then
    echo "kvarn: setting up failed; the engine's build log is $log" >&2
    exit 1
fi
echo "$uv"
