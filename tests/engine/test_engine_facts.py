"""The `kvarn` object of /props, and kvarn-build-info.json beside the programs."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine

# SmolLM2-135M: 30 layers, 3 KV heads of 64 values.
LAYERS, KV_WIDTH = 30, 192


@pytest.mark.parametrize(
    ("kv_k", "kv_v", "flash"),
    [("f16", "f16", "off"), ("q8_0", "q4_0", "on"), ("tbq4_0", "planar3_0", "on"), ("tcq4_0", "tcq3_0", "on")],
)
def test_props_says_what_was_allocated_to_the_byte(start_server, engine_build_info, kv_k, kv_v, flash):
    sizes = {kv["name"]: kv for kv in engine_build_info["kv_types"]}
    options = ("-c", "1024", "-np", "2", "-ctk", kv_k, "-ctv", kv_v, "-fa", flash, "--no-kv-unified")
    with start_server(*options) as server:
        props = server.http.get("/props").json()
    facts = props["kvarn"]

    def bytes_of(name: str) -> int:
        half = sizes[name].get("half_block_bytes")  # the starter's heads of 64 take half blocks
        block = (half, 64) if half else (sizes[name]["block_bytes"], sizes[name]["block_values"])
        return LAYERS * 1024 * KV_WIDTH * block[0] // block[1]

    assert (facts["kv_k"], facts["kv_v"]) == (kv_k, kv_v)
    assert (facts["kv_k_bytes"], facts["kv_v_bytes"]) == (bytes_of(kv_k), bytes_of(kv_v))
    assert facts["kv_bytes"] == bytes_of(kv_k) + bytes_of(kv_v)
    assert facts["recurrent_bytes"] == 0
    assert facts["flash_attention"] is (flash == "on")
    assert facts["context_tokens"] == 1024
    assert facts["context_per_slot"] == 512 == props["default_generation_settings"]["n_ctx"]
    assert facts["draft"] is None
    assert {"graph_stats", "requests"} <= set(facts["features"])


def test_build_info_names_base_version_patches_and_cuda_with_a_reason(engine_build_info):
    assert engine_build_info["base"] == "llama-cpp-python 0.3.36"
    assert engine_build_info["version"].startswith("0.3.36+kvarn.")
    assert "CPU" in engine_build_info["backends"]
    assert engine_build_info["cuda"]["reason"]
    assert engine_build_info["compiler"]
    names = [patch["name"] for patch in engine_build_info["patches"]]
    assert "llama/count-graph-builds" in names
    assert all(len(patch["sha256"]) == 64 and patch["subject"] for patch in engine_build_info["patches"])


def test_kv_types_have_the_published_block_sizes(engine_build_info):
    sizes = {kv["name"]: (kv["block_values"], kv["block_bytes"]) for kv in engine_build_info["kv_types"]}
    assert sizes["f16"] == (1, 2)
    assert sizes["q8_0"] == (32, 34)
    assert sizes["q4_0"] == (32, 18)
    assert sizes["tbq4_0"] == (128, 66)
    assert sizes["planar3_0"] == (128, 50)
    assert sizes["tcq4_0"] == (128, 66)
    assert sizes["tcq3_0"] == (128, 50)
    halves = {kv["name"]: kv.get("half_block_bytes") for kv in engine_build_info["kv_types"] if kv.get("is_rotated")}
    assert halves == {"tbq4_0": 34, "planar3_0": 26, "tcq4_0": 34, "tcq3_0": 26}
    assert all(
        kv["bits_per_value"] == 8 * kv["block_bytes"] / kv["block_values"] for kv in engine_build_info["kv_types"]
    )


def test_graph_counts_can_be_read_through_the_library_too(engine_dir: Path):
    names = {"win32": "llama.dll", "darwin": "libllama.dylib"}
    library = ctypes.CDLL(str(engine_dir.parent / "lib" / names.get(sys.platform, "libllama.so")))
    library.kvarn_graph_reason_name.restype = ctypes.c_char_p
    assert library.kvarn_graph_reason_name(8) == b"kv_grew"
    assert library.kvarn_graph_reason_name(-1) is None
    counts = (ctypes.c_uint64 * 13)()
    library.kvarn_graph_stats_get(counts)
    assert list(counts) == [0] * 13


def test_the_bindings_and_the_programs_are_one_installation(engine_dir: Path):
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or Path(spec.origin).parent != engine_dir.parent:
        pytest.skip("the engine under test is not the installed one")
    assert {path.stem for path in engine_dir.iterdir()} >= {
        "llama-server",
        "llama-bench",
        "llama-batched-bench",
        "llama-perplexity",
        "llama-quantize",
        "llama-fit-params",
    }
