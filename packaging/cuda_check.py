"""Compile every CUDA file that we add or touch, for each architecture; then run the device code on the host.

This proves that the code compiles and that codecs agree with the CPU's; it runs nothing on a GPU. Results are kept by the
content of all that a file includes, so only what changed is compiled again.
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


def main() -> int:
    """Exit 0 when all compiled and agreed (or nothing could be compiled here, which is said), 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="architectures compiled at once")
    parser.add_argument("--arch", action="append", help="instead of all: 75, 86, 89, 90 or 120a; may be repeated")
    options = parser.parse_args()
    architectures = tuple(options.arch or ARCHITECTURES)
    if nvcc := cuda.find_nvcc():
        compiled = compile_all(nvcc, architectures, options.jobs)
    else:
        compiled = True
        print("cuda-check: compiling is SKIPPED: no CUDA compiler (nvcc) was found. Install the CUDA toolkit, or set CUDACXX.")
    print("cuda-check: running the device code on the host", flush=True)
    host = subprocess.run([sys.executable, "-m", "pytest", "-q", "tests/engine/test_cuda_codec.py"], cwd=ROOT, check=False)
    return 0 if compiled and host.returncode == 0 else 1


def compile_all(nvcc: Path, architectures: tuple[str, ...], jobs: int) -> bool:
    """Every unit, one line each; goes on after a failure."""
    here = pin.read_pin()
    with locations.only_one_build():
        tree = source_tree.prepare(here, pin.fetch_sdist(here), series.read_patches())
    ggml = tree.source / here.llama_cpp / "ggml"
    flags = flags_for(ggml, nvcc)
    version = subprocess.run([str(nvcc), "--version"], check=True, capture_output=True, text=True).stdout
    release = next((line for line in version.splitlines() if "release" in line), "").strip()
    names = units()
    print(f"cuda-check: {len(names)} files for {', '.join('sm_' + a for a in architectures)}; {release}", flush=True)
    failed = 0
    for number, name in enumerate(names, start=1):
        print(f"[{number}/{len(names)}] {name}", end=" ", flush=True)
        missing = [a for a in architectures if not is_known_good(ggml, name, a, [version, *flags])]
        if not missing:
            print("unchanged since it compiled", flush=True)
            continue
        started = time.monotonic()
        ok = compile_unit(nvcc, ggml, name, missing, flags, version, jobs)
        print(f"{'compiled' if ok else 'FAILED'} in {time.monotonic() - started:.0f} s", flush=True)
        failed += not ok
    print(f"cuda-check: {failed} of {len(names)} files failed" if failed else "cuda-check: every file compiled")
    return not failed


def units() -> list[str]:
    """The CUDA sources of the overlay, those our patches touch, and the witnesses, as paths below ggml-cuda/."""
    overlay = [path for path in series.overlay_files() if path.parent == FOLDER]
    touched = [Path(path) for patch in series.read_patches() for path in patch.touched]
    ours = {path.name for path in [*overlay, *touched] if path.parent == FOLDER and path.suffix == ".cu"}
    return [*sorted(ours), *WITNESSES]


def flags_for(ggml: Path, nvcc: Path) -> list[str]:
    """What the build compiles with: see ggml-cuda/CMakeLists.txt and `ggml_cuda_fattn_vec_instances`."""
    types = ("q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "bf16", "f16")
    compiled = {(t, t) for t in ("q4_0", "q8_0", "bf16", "f16")}
    pairs = [f"-DGGML_CUDA_FA_{k}_{v}={int((k, v) in compiled)}".upper() for k in types for v in types]
    defines = ["-DGGML_BACKEND_BUILD", "-DGGML_BACKEND_SHARED", "-DGGML_SHARED", "-DGGML_CUDA_USE_GRAPHS"]
    folders = [f"-I{ggml / part}" for part in ("include", "src", "src/ggml-cuda")]
    if not cuda.has_cublas(nvcc):
        folders += ["-isystem", str(cublas_headers())]
    return ["-std=c++17", "-O3", "-use_fast_math", "-extended-lambda", "-Xcompiler", "-fPIC", *pairs, *defines, *folders]


def cublas_headers() -> Path:
    """The headers out of the pinned wheel, fetched once with pip."""
    target = CACHE / CUBLAS
    if not target.exists():
        print(f"cuda-check: this toolkit has no cuBLAS; fetching the headers of {CUBLAS} (400 MB, once)", flush=True)
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as work:
            pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", work, CUBLAS]
            subprocess.run(pip, check=True)
            unpacked = Path(work, "headers")
            with zipfile.ZipFile(next(Path(work).glob("*.whl"))) as wheel:
                for name in wheel.namelist():
                    if "/include/" in name and name.endswith(".h"):
                        (unpacked / Path(name).name).parent.mkdir(exist_ok=True)
                        (unpacked / Path(name).name).write_bytes(wheel.read(name))
            unpacked.replace(target)
    return target


def compile_unit(
    nvcc: Path, ggml: Path, name: str, architectures: list[str], flags: list[str], version: str, jobs: int
) -> bool:
    """One call for all architectures; when it fails, one for each, so that the message names the culprit."""
    if run_nvcc(nvcc, ggml, name, architectures, flags, version, jobs):
        return True
    for architecture in architectures if len(architectures) > 1 else []:
        if not run_nvcc(nvcc, ggml, name, [architecture], flags, version, jobs):
            print(f"  {name}: sm_{architecture} fails")
    return False


def run_nvcc(
    nvcc: Path, ggml: Path, name: str, architectures: list[str], flags: list[str], version: str, jobs: int
) -> bool:
    """Compile, print what nvcc says, and note what was included when all went well. A warning is a failure."""
    with tempfile.TemporaryDirectory() as work:
        listing = Path(work, "unit.d")
        targets = [w for a in architectures for w in ("-gencode", f"arch=compute_{a},code=sm_{a}")]
        command = [str(nvcc), *flags, *targets, "--threads", str(jobs), "-MD", "-MF", str(listing), "-c",
                   str(ggml / "src" / "ggml-cuda" / name), "-o", str(Path(work, "unit.o"))]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        said = (done.stdout + done.stderr).strip()
        if said:
            print(f"\n{said}", flush=True)
        if done.returncode or "warning" in said:
            return False
        included = [word for word in listing.read_text().replace("\\\n", " ").split()[1:] if word != ":"]
    for architecture in architectures:
        note_good(ggml, name, architecture, [version, *flags], included)
    return True


def note_of(name: str, architecture: str) -> Path:
    """Where the result of one file and architecture is kept."""
    return CACHE / "results" / f"{name.replace('/', '-')}.sm_{architecture}.json"


def note_good(ggml: Path, name: str, architecture: str, inputs: list[str], included: list[str]) -> None:
    """Keep the paths a good compilation read (below the tree as relative ones) and the hash of their contents."""
    top = str(ggml) + os.sep
    paths = sorted({os.path.normpath(path).removeprefix(top) for path in included})
    note = note_of(name, architecture)
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps({"paths": paths, "hash": hash_of(ggml, paths, inputs)}))


def is_known_good(ggml: Path, name: str, architecture: str, inputs: list[str]) -> bool:
    """Whether nothing that went into a good compilation has changed."""
    note = note_of(name, architecture)
    if not note.exists():
        return False
    kept = json.loads(note.read_text())
    try:
        return bool(hash_of(ggml, kept["paths"], inputs) == kept["hash"])
    except FileNotFoundError:
        return False


def hash_of(ggml: Path, paths: list[str], inputs: list[str]) -> str:
    """Hash of the files and of the flags, wherever the tree lies."""
    digest = hashlib.sha256("\0".join(inputs).replace(str(ggml), "ggml").encode())
    for path in paths:
        digest.update((ggml / path).read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(main())
