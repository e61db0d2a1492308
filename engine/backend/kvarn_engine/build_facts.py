"""What is known before compiling: base, version, patches, the CUDA decision. `build_info.py` adds the rest."""

from __future__ import annotations

import dataclasses
import json
import tomllib
from pathlib import Path

from . import cuda, locations, pin, series


def write_facts(path: Path, here: pin.Pin, patches: list[series.Patch], choice: cuda.CudaChoice) -> Path:
    """Write them, touching the file only when they changed, so that a rebuild stays a no-op."""
    project = tomllib.loads((locations.ENGINE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    facts = {
        "base": here.base,
        "llama_cpp_commit": here.llama_cpp_commit,
        "version": project["version"],
        "patches": [
            {"name": patch.name.removesuffix(".patch"), "sha256": patch.sha256, "subject": patch.subject}
            for patch in patches
        ],
        "cuda": dataclasses.asdict(choice),
    }
    text = json.dumps(facts, indent=2) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    return path
