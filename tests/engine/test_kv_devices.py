"""A GPU that cannot hold or read a cache of our types: refused with a sentence when the context is made."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine

SCRIPT = Path(__file__).with_name("make_context_on_device.py")


def made(engine_dir: Path, model: Path, lacking: str, kv_k: str, kv_v: str, attention: str) -> str:
    """What libllama says while a context is made on a device that lacks ops for our types; `made` or `refused` last."""
    if not (engine_dir.parent / "llama_cpp.py").exists():
        pytest.skip("the engine under test has no Python bindings")
    command = [sys.executable, str(SCRIPT), str(model), lacking, kv_k, kv_v, attention]
    env = os.environ | {"PYTHONPATH": str(engine_dir.parent.parent)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=env, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_device_that_has_every_op_is_not_refused(engine_dir, engine_build_info, starter_model):
    said = made(engine_dir, starter_model, "-", "tbq4_0", "planar3_0", "on")
    assert "not supported on" not in said
    assert "no attention over" not in said


def test_a_device_that_cannot_store_the_type_is_named(engine_dir, engine_build_info, starter_model):
    said = made(engine_dir, starter_model, "SET_ROWS", "tbq4_0", "tbq4_0", "on")
    assert said.rstrip().endswith("refused")
    assert "K cache type tbq4_0 is not supported on FAKE0; these types work: q4_0, q5_0, q8_0, bf16, f16" in said


@pytest.mark.parametrize("attention", ["on", "auto"])
def test_a_device_that_cannot_read_the_type_is_named(engine_dir, engine_build_info, starter_model, attention):
    said = made(engine_dir, starter_model, "FLASH_ATTN_EXT,MUL_MAT", "q8_0", "planar3_0", attention)
    assert said.rstrip().endswith("refused")
    assert (
        "FAKE0 has no attention over a q8_0 K and planar3_0 V cache with heads of 64 values; q8_0 and q4_0 work" in said
    )


def test_a_k_cache_without_flash_attention_needs_a_product_of_its_own(engine_dir, engine_build_info, starter_model):
    said = made(engine_dir, starter_model, "MUL_MAT", "tbq4_0", "f16", "off")
    assert said.rstrip().endswith("refused")
    assert "with heads of 64 values while flash attention is off" in said
