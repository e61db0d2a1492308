#!/bin/sh
# Names the system packages that are missing and, as root or with sudo on an apt system, installs them.
# A package is looked for by what it gives (a program or a library), so other distributions pass too.
set -eu
missing=""

need_program() { command -v "$1" >/dev/null 2>&1 || missing="$missing $2"; }
need_library() { ldconfig -p 2>/dev/null | grep -q "$1" || missing="$missing $2"; }

need_program c++ g++              # compiles the engine
need_program git git              # applies the engine's patches
need_program ccache ccache        # makes the second engine build a matter of seconds
python3 -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
if [ "$(uname -s)" = Linux ]; then
    need_library libEGL.so.1 libegl1                      # Qt's window and offscreen drawing
    need_library libGL.so.1 libgl1
    need_library libfontconfig.so.1 libfontconfig1
    need_library libdbus-1.so.3 libdbus-1-3
    need_library libxkbcommon-x11.so.0 libxkbcommon-x11-0 # Qt's X11 plug-in
    need_library libxcb-cursor.so.0 libxcb-cursor0
    need_library libxcb-icccm.so.4 libxcb-icccm4
    need_library libxcb-image.so.0 libxcb-image0
    need_library libxcb-keysyms.so.1 libxcb-keysyms1
    need_library libxcb-render-util.so.0 libxcb-render-util0
    need_library libxcb-shape.so.0 libxcb-shape0
    need_library libxcb-xkb.so.1 libxcb-xkb1
    if command -v fc-list >/dev/null 2>&1 && [ -z "$(fc-list | head -n 1)" ]; then
        missing="$missing fonts-dejavu-core"
    elif ! command -v fc-list >/dev/null 2>&1; then
        [ -d /usr/share/fonts/truetype ] || missing="$missing fonts-dejavu-core"
    fi
fi
[ -n "$missing" ] || exit 0

if ! command -v apt-get >/dev/null 2>&1; then
    echo "kvarn: please install what provides:$missing" >&2
    exit 0
fi
as_root=""
if [ "$(id -u)" != 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "kvarn: please install as root: apt-get install$missing" >&2
        exit 0
    fi
    as_root=sudo
fi
echo "kvarn: installing system packages:$missing" >&2
export DEBIAN_FRONTEND=noninteractive
$as_root apt-get update -qq >&2 || true
# shellcheck disable=SC2086  # the list is meant to be split
$as_root apt-get install -y -qq --no-install-recommends $missing >&2 ||
    echo "kvarn: some packages could not be installed:$missing" >&2
