"""Run by the build, after linking: ask the built engine what it is and write kvarn-build-info.json.

Names, block sizes and backends come from the libraries and from `llama-server --help`, never from a table of ours.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any


def library(folder: Path, name: str) -> ctypes.CDLL:
    """One of the built libraries, by its name on this platform."""
    names = {"win32": f"{name}.dll", "darwin": f"lib{name}.dylib"}
    return ctypes.CDLL(str(folder / names.get(sys.platform, f"lib{name}.so")))


def all_types(ggml_base: ctypes.CDLL, count: int) -> dict[str, dict[str, Any]]:
    """Every tensor type of the library by name: block size in values and in bytes. Retired ids have an empty block."""
    ggml_base.ggml_type_name.restype = ctypes.c_char_p
    ggml_base.ggml_blck_size.restype = ctypes.c_int64
    ggml_base.ggml_type_size.restype = ctypes.c_size_t
    found: dict[str, dict[str, Any]] = {}
    for number in range(count):
        name = ggml_base.ggml_type_name(number)
        values, size = ggml_base.ggml_blck_size(number), ggml_base.ggml_type_size(number)
        if name and values:
            found[name.decode()] = {"block_values": values, "block_bytes": size, "bits_per_value": size * 8 / values}
    return found


def type_count(source: Path) -> int:
    """GGML_TYPE_COUNT of the header that was compiled; the library reads past its table for ids above it."""
    header = (source / "vendor/llama.cpp/ggml/include/ggml.h").read_text(encoding="utf-8")
    match = re.search(r"GGML_TYPE_COUNT\s*=\s*(\d+)", header)
    if not match:
        raise SystemExit("ggml.h no longer numbers GGML_TYPE_COUNT: teach build_info.py the new way")
    return int(match[1])


def kv_types(help_text: str, types: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The types `--cache-type-k` offers, in its order."""
    offered = re.search(r"--cache-type-k TYPE.*?allowed values: ([a-z0-9_, \n]+?)\n\s*\(", help_text, re.DOTALL)
    if not offered:
        raise SystemExit("llama-server --help no longer lists the K cache types: teach build_info.py the new way")
    return [{"name": name, **types[name], **_half_block(name, types)} for name in re.findall(r"[a-z0-9_]+", offered[1])]


def _half_block(name: str, types: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Only types that store rotated values have a variant with half blocks; it is named by its block's length."""
    half = types[name]["block_values"] // 2
    variant = types.get(f"{name}_{half}")
    return {"half_block_bytes": variant["block_bytes"], "is_rotated": True} if variant else {}


def backends(folder: Path) -> list[str]:
    """Names of the ggml backends compiled in."""
    ggml = library(folder, "ggml")
    ggml.ggml_backend_reg_count.restype = ctypes.c_size_t
    ggml.ggml_backend_reg_get.restype = ctypes.c_void_p
    name_of = library(folder, "ggml-base").ggml_backend_reg_name
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    count = ggml.ggml_backend_reg_count()
    return [name_of(ggml.ggml_backend_reg_get(ctypes.c_size_t(number))).decode() for number in range(count)]


def describe(options: argparse.Namespace) -> dict[str, Any]:
    """All the console probes: the facts known before compiling, and what the built engine says."""
    server = options.bin / ("llama-server.exe" if sys.platform == "win32" else "llama-server")
    said = subprocess.run([str(server), "--help"], check=True, capture_output=True, text=True).stdout
    types = all_types(library(options.bin, "ggml-base"), type_count(options.source))
    return json.loads(options.facts.read_text(encoding="utf-8")) | {
        "compiler": options.compiler,
        "build_type": options.build_type,
        "flags": options.flags.split(),
        "backends": backends(options.bin),
        "kv_types": kv_types(said, types),
    }


def main() -> None:
    """Write the file named by --output."""
    parser = argparse.ArgumentParser(description=__doc__)
    for option in ("--facts", "--bin", "--output", "--source"):
        parser.add_argument(option, type=Path, required=True)
    for option in ("--compiler", "--build-type", "--flags"):
        parser.add_argument(option, default="")
    options = parser.parse_args()
    options.output.write_text(json.dumps(describe(options), indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
