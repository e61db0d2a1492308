"""Compile every CUDA file that we add or touch, for each architecture; then run the device code on the host.

This proves that the code compiles and that codecs agree with the CPU's; it runs nothing on a GPU. Results are
kept by the content of all that a file includes, so only what changed is compiled again.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "engine" / "backend"))

from kvarn_engine import cuda, locations, pin, series, source_tree  # noqa: E402

ARCHITECTURES = ("75", "86", "89", "90", "120a")
"""Turing, Ampere, Ada, Hopper, Blackwell; 120a is what the engine's build makes of 120."""
CUBLAS = "nvidia-cublas==13.0.2.14"
"""Its headers stand in for a toolkit without cuBLAS. Only compiling needs them."""
FOLDER = Path("ggml/src/ggml-cuda")
WITNESSES = ("template-instances/fattn-vec-instance-q4_0-q4_0.cu", "lightning-indexer.cu")
"""Files of upstream's that include the headers we touch, beside those we touch ourselves."""
CACHE = locations.cache() / "cuda-check"


@dataclass(frozen=True)
class Compiler:
    """nvcc with the source tree, the flags of the engine's build, and what `nvcc --version` says."""

    nvcc: Path
    ggml: Path
    flags: list[str]
    version: str
    jobs: int


def main() -> int:
    """Exit 0 when all compiled and agreed (or nothing could be compiled here, which is said), 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="architectures compiled at once")
    parser.add_argument("--arch", action="append", help="instead of all: 75, 86, 89, 90 or 120a; may be repeated")
    options = parser.parse_args()
    compiled = True
    if nvcc := cuda.find_nvcc():
        compiled = compile_all(find_compiler(nvcc, options.jobs), options.arch or list(ARCHITECTURES))
    else:
        print("cuda-check: compiling is SKIPPED: there is no nvcc. Install the CUDA toolkit, or set CUDACXX.")
    print("cuda-check: running the device code on the host", flush=True)
    command = [sys.executable, "-m", "pytest", "-q", "tests/engine/test_cuda_codec.py"]
    host = subprocess.run(command, cwd=ROOT, check=False)
    return 0 if compiled and host.returncode == 0 else 1


def find_compiler(nvcc: Path, jobs: int) -> Compiler:
    """The tree is the one the engine is built from, made now if there is none."""
    here = pin.read_pin()
    with locations.only_one_build():
        tree = source_tree.prepare(here, pin.fetch_sdist(here), series.read_patches())
    ggml = tree.source / here.llama_cpp / "ggml"
    version = subprocess.run([str(nvcc), "--version"], check=True, capture_output=True, text=True).stdout
    return Compiler(nvcc, ggml, flags_for(ggml, nvcc), version, jobs)


def flags_for(ggml: Path, nvcc: Path) -> list[str]:
    """What the build compiles with: see ggml-cuda/CMakeLists.txt and `ggml_cuda_fattn_vec_instances`."""
    types = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "bf16", "f16")
    compiled = {(t, t) for t in ("q4_0", "q8_0", "bf16", "f16")}
    pairs = [f"-DGGML_CUDA_FA_{k}_{v}={int((k, v) in compiled)}".upper() for k in types for v in types]
    defines = ["-DGGML_BACKEND_BUILD", "-DGGML_BACKEND_SHARED", "-DGGML_SHARED", "-DGGML_CUDA_USE_GRAPHS"]
    folders = [f"-I{ggml / part}" for part in ("include", "src", "src/ggml-cuda")]
    if not cuda.has_cublas(nvcc):
        folders += ["-isystem", str(cublas_headers())]
    general = ["-std=c++17", "-O3", "-use_fast_math", "-extended-lambda", "-Xcompiler", "-fPIC"]
    return [*general, *pairs, *defines, *folders]


def cublas_headers() -> Path:
    """The headers out of the pinned wheel, fetched once with pip."""
    target = CACHE / CUBLAS
    if not target.exists():
        print(f"cuda-check: this toolkit has no cuBLAS; fetching the headers of {CUBLAS} (400 MB, once)", flush=True)
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as work:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work, CUBLAS]
            subprocess.run(pip, check=True)
            headers = Path(work, "headers")
            headers.mkdir()
            with zipfile.ZipFile(next(Path(work).glob("*.whl"))) as wheel:
                for name in wheel.namelist():
                    if "/include/" in name and name.endswith(".h"):
                        (headers / Path(name).name).write_bytes(wheel.read(name))
            headers.replace(target)
    return target


def units() -> list[str]:
    """The CUDA sources of the overlay, those our patches touch, and the witnesses, as paths below ggml-cuda/."""
    touched = [Path(path) for patch in series.read_patches() for path in patch.touched]
    ours = {p.name for p in [*series.overlay_files(), *touched] if p.parent == FOLDER and p.suffix == ".cu"}
    return [*sorted(ours), *WITNESSES]


def compile_all(compiler: Compiler, architectures: list[str]) -> bool:
    """Every unit, one line each; goes on after a failure."""
    names = units()
    release = next((line for line in compiler.version.splitlines() if "release" in line), "").strip()
    print(f"cuda-check: {len(names)} files for sm_{', sm_'.join(architectures)}; {release}", flush=True)
    failed = 0
    for number, name in enumerate(names, start=1):
        print(f"[{number}/{len(names)}] {name}", end=" ", flush=True)
        missing = [a for a in architectures if not is_known_good(compiler, name, a)]
        if not missing:
            print("unchanged since it compiled", flush=True)
            continue
        started = time.monotonic()
        ok = compile_unit(compiler, name, missing)
        print(f"{'compiled' if ok else 'FAILED'} in {time.monotonic() - started:.0f} s", flush=True)
        failed += not ok
    print(f"cuda-check: {failed} of {len(names)} files failed" if failed else "cuda-check: every file compiled")
    return not failed


def compile_unit(compiler: Compiler, name: str, architectures: list[str]) -> bool:
    """One call for all architectures; when it fails, one for each, so that the message names the culprit."""
    if run_nvcc(compiler, name, architectures):
        return True
    bad = [a for a in architectures if len(architectures) == 1 or not run_nvcc(compiler, name, [a], quiet=True)]
    print(f"  {name}: sm_{', sm_'.join(bad)} fails")
    return False


def run_nvcc(compiler: Compiler, name: str, architectures: list[str], *, quiet: bool = False) -> bool:
    """Compile, print what nvcc says, and note what was included when all went well. A warning is a failure."""
    with tempfile.TemporaryDirectory() as work:
        listing = Path(work, "unit.d")
        targets = [w for a in architectures for w in ("-gencode", f"arch=compute_{a},code=sm_{a}")]
        source = compiler.ggml / "src" / "ggml-cuda" / name
        command = [str(compiler.nvcc), *compiler.flags, *targets, "--threads", str(compiler.jobs), "-MD", "-MF"]
        command += [str(listing), "-c", str(source), "-o", str(Path(work, "unit.o"))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        said = (done.stdout + done.stderr).strip()
        if said and not quiet:
            print(f"\n{said}", flush=True)
        if done.returncode or "warning" in said:
            return False
        included = [word for word in listing.read_text().replace("\\\n", " ").split()[1:] if word != ":"]
    for architecture in architectures:
        note_good(compiler, name, architecture, included)
    return True


def note_of(name: str, architecture: str) -> Path:
    """Where the result of one file and architecture is kept."""
    return CACHE / "results" / f"{name.replace('/', '-')}.sm_{architecture}.json"


def note_good(compiler: Compiler, name: str, architecture: str, included: list[str]) -> None:
    """Keep the paths a good compilation read (below the tree as relative ones) and the hash of their contents."""
    top = str(compiler.ggml) + os.sep
    paths = sorted({os.path.normpath(path).removeprefix(top) for path in included})
    note = note_of(name, architecture)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps({"paths": paths, "hash": hash_of(compiler, paths)}))


def is_known_good(compiler: Compiler, name: str, architecture: str) -> bool:
    """Whether nothing that went into a good compilation has changed."""
    note = note_of(name, architecture)
    if not note.exists():
        return False
    kept = json.loads(note.read_text())
    try:
        return bool(hash_of(compiler, kept["paths"]) == kept["hash"])
    except FileNotFoundError:
        return False


def hash_of(compiler: Compiler, paths: list[str]) -> str:
    """Hash of nvcc's version, the flags and the files, wherever the tree lies."""
    inputs = "\0".join([compiler.version, *compiler.flags])
    digest = hashlib.sha256(inputs.replace(str(compiler.ggml), "ggml").encode())
    for path in paths:
        digest.update((compiler.ggml / path).read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
