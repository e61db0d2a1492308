"""Whether to build the CUDA backend, and the reason a person reads in `kvarn doctor`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class CudaChoice:
    """The decision and its reason, as a sentence part."""

    enabled: bool
    reason: str


def decide() -> CudaChoice:
    """`KVARN_CUDA=1` forces it on, `0` off; otherwise a compiler with cuBLAS *and* a GPU must both be here."""
    asked = os.environ.get("KVARN_CUDA", "")
    if asked == "0":
        return CudaChoice(False, "asked for by KVARN_CUDA=0")
    missing = _missing()
    if asked == "1":
        return CudaChoice(True, "asked for by KVARN_CUDA=1" + (f", although {missing}" if missing else ""))
    return CudaChoice(not missing, missing or f"{find_nvcc()} with cuBLAS, and {find_gpu()}")


def cmake_settings(choice: CudaChoice) -> dict[str, str]:
    """What CMake cannot find out by itself."""
    settings: dict[str, str] = {}
    if choice.enabled and (nvcc := find_nvcc()):
        settings["CMAKE_CUDA_COMPILER"] = str(nvcc)  # CMake looks in fewer places than we do
    if choice.enabled and not find_gpu():
        # `native` means the GPU that is here; a build on a machine without one serves every major architecture.
        settings["CMAKE_CUDA_ARCHITECTURES"] = "all-major"
    return settings


def _missing() -> str:
    """The first thing a CUDA build needs and this machine lacks; empty when nothing is."""
    if not (nvcc := find_nvcc()):
        return "no CUDA compiler (nvcc) was found"
    if not has_cublas(nvcc):
        return f"{nvcc} has no cuBLAS beside it"
    return "" if find_gpu() else "no NVIDIA GPU answers"


def find_nvcc() -> Path | None:
    """The CUDA compiler from the usual variables, the path, or the usual folder."""
    homes = [os.environ.get(name) for name in ("CUDACXX", "CUDA_PATH", "CUDA_HOME")]
    places = [Path(home) if home.endswith("nvcc") else Path(home, "bin", "nvcc") for home in homes if home]
    on_path = shutil.which("nvcc")
    places += [Path(on_path)] if on_path else []
    places += [Path("/usr/local/cuda/bin/nvcc")]
    suffixes = (".exe", "") if sys.platform == "win32" else ("",)
    return next((p.with_suffix(s) if s else p for p in places for s in suffixes if Path(f"{p}{s}").is_file()), None)


def has_cublas(nvcc: Path) -> bool:
    """Whether the toolkit nvcc belongs to can link cuBLAS. A wrapper script is asked where its toolkit is."""
    asked = subprocess.run([str(nvcc), "--dryrun", "-E", "-x", "cu", os.devnull], check=False, capture_output=True,
                           text=True)  # fmt: skip
    tops = [line.partition("TOP=")[2].strip() for line in asked.stderr.splitlines() if "TOP=" in line]
    roots = [Path(tops[0])] if tops else [nvcc.resolve().parent.parent]
    # Distributions put the toolkit's headers among the system's own.
    folders = [root / part for root in roots for part in ("include", "targets/x86_64-linux/include")]
    return any((folder / "cublas_v2.h").is_file() for folder in [*folders, Path("/usr/include")])


def find_gpu() -> str | None:
    """The first GPU's name as the driver's own tool gives it."""
    if not (tool := shutil.which("nvidia-smi")):
        return None
    done = subprocess.run(
        [tool, "--query-gpu=name", "--format=csv,noheader"], check=False, capture_output=True, text=True
    )
    names = done.stdout.strip().splitlines()
    return names[0] if done.returncode == 0 and names else None
