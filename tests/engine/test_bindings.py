"""`import llama_cpp`: our cache types by name, with the numbers of the built library, and a context made with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine

NAMES = """
import ctypes, json, llama_cpp, sys
from pathlib import Path
suffix = {"win32": "{}.dll", "darwin": "lib{}.dylib"}.get(sys.platform, "lib{}.so")
base = ctypes.CDLL(str(Path(llama_cpp.__file__).parent / "lib" / suffix.format("ggml-base")))
base.ggml_type_name.restype = ctypes.c_char_p
named = {name: number for name, number in vars(llama_cpp).items() if name.startswith("GGML_TYPE_")}
library = [base.ggml_type_name(number) for number in range(llama_cpp.GGML_TYPE_COUNT)]
print(json.dumps([named, [name.decode() if name else "" for name in library]]))
"""

ANSWER = """
import llama_cpp, sys
kinds = {"type_k": llama_cpp.GGML_TYPE_TBQ4_0, "type_v": llama_cpp.GGML_TYPE_PLANAR3_0}
model = llama_cpp.Llama(sys.argv[1], n_ctx=256, n_threads=1, flash_attn=True, verbose=False, **kinds)
print(model("The capital of France is", max_tokens=4, temperature=0.0)["choices"][0]["text"])
"""


def run(engine_dir: Path, script: str, *arguments: str) -> str:
    if not (engine_dir.parent / "llama_cpp.py").exists():
        pytest.skip("the engine under test has no Python bindings")
    env = os.environ | {"PYTHONPATH": str(engine_dir.parent.parent)}
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=env, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_type_of_ours_has_the_number_of_the_library(engine_dir, engine_build_info):
    named, library = json.loads(run(engine_dir, NAMES))
    ours = [name for name in library if name.removesuffix("_64") in {k["name"] for k in kv_types(engine_build_info)}]
    assert {"tbq4_0", "tbq4_0_64", "planar3_0", "planar3_0_64"} <= set(ours)
    for name in ours:
        assert library[named[f"GGML_TYPE_{name.upper()}"]] == name
        assert named[f"GGML_TYPE_KVARN_{name.upper()}"] == named[f"GGML_TYPE_{name.upper()}"]


def kv_types(build_info) -> list[dict]:
    """The cache types that only our engine has."""
    return [kind for kind in build_info["kv_types"] if kind.get("is_rotated")]


def test_the_bindings_answer_with_a_cache_of_our_types(engine_dir, engine_build_info, starter_model):
    assert "Paris" in run(engine_dir, ANSWER, str(starter_model))
