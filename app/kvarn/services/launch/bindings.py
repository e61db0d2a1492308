"""The engine's Python bindings, for worker processes only: a bad file can end whoever loads them."""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
import types
from pathlib import Path
from typing import Any

import kvarn


def has_bindings(package_dir: Path) -> bool:
    """Whether that `llama_cpp` folder can be loaded; a stock llama-server comes without."""
    return (package_dir / "llama_cpp.py").is_file()


def worker_environment() -> dict[str, str]:
    """What a worker of ours needs beside our own variables: this very package first, so that it runs the same code."""
    root = str(Path(kvarn.__file__).parent.parent)
    return {"PYTHONPATH": os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))}


def load_bindings(package_dir: Path) -> Any:
    """The module `llama_cpp.llama_cpp` of that folder alone: its package would load the high-level API as well."""
    package = types.ModuleType("llama_cpp")
    package.__path__ = [str(package_dir)]
    sys.modules["llama_cpp"] = package
    return importlib.import_module("llama_cpp.llama_cpp")


def type_number(package_dir: Path, name: str) -> int:
    """A type's number in this build, found by its name; numbers differ between builds.

    The name must be one this engine lists: behind the last type there is no memory to read.
    """
    library = _ggml_base(package_dir)
    library.ggml_type_name.restype = ctypes.c_char_p
    wanted = name.encode()
    return next(number for number in range(256) if library.ggml_type_name(number) == wanted)


def _ggml_base(package_dir: Path) -> ctypes.CDLL:
    names = ("libggml-base.so", "libggml-base.dylib", "ggml-base.dll")
    return ctypes.CDLL(str(next(p for name in names if (p := package_dir / "lib" / name).exists())))
