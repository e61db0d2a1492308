"""The published sizes of well-known models, to the byte where bytes are known."""

from __future__ import annotations

import pytest

from known_models import (
    DEEPSEEK_V2_LITE,
    DEEPSEEK_V3,
    GEMMA3_4B,
    GEMMA3_12B,
    GEMMA3_27B,
    GEMMA4_31B,
    GPT_OSS_20B,
    LLAMA31_8B,
    MIB,
    QWEN36_27B,
    SMOLLM2,
    TYPES,
    dense,
    entry,
)
from kvarn.domain.launch.estimate import estimate_budget
from kvarn.domain.launch.launch_plan import LaunchSettings
from kvarn.domain.launch.memory_budget import MemoryKind

COLUMNS = (4096, 32768, 131072, 262144)
"""Context of the table's columns; batch step 512, one slot."""

GROWS = {
    # model, type: bytes per token in layers that keep everything
    ("qwen36", "f16"): 65536,
    ("qwen36", "q8_0"): 34816,
    ("qwen36", "q4_0"): 18432,
    ("qwen36", "tbq4_0"): 16896,
    ("qwen36", "planar3_0"): 12800,
    ("qwen36", "tcq4_0"): 16896,
    ("qwen36", "tcq3_0"): 12800,
    ("smollm2", "f16"): 23040,
    ("smollm2", "q8_0"): 12240,
    ("smollm2", "q4_0"): 6480,
    ("llama31", "f16"): 131072,
    ("llama31", "q8_0"): 69632,
    ("llama31", "q4_0"): 36864,
    ("llama31", "tbq4_0"): 33792,
    ("llama31", "planar3_0"): 25600,
    ("deepseek3", "f16"): 70272,
    ("deepseek3", "q8_0"): 37332,
    ("deepseek3", "q4_0"): 19764,
    ("deepseek2-lite", "f16"): 31104,
    ("deepseek2-lite", "q8_0"): 16524,
    ("deepseek2-lite", "q4_0"): 8748,
}
WINDOWED = {
    # model, type: bytes per growing token, MiB at each column
    ("gemma3-4b", "f16"): (20480, (254, 814, 2734, 5294)),
    ("gemma3-12b", "f16"): (65536, (736, 2528, 8672, 16864)),
    ("gemma3-27b", "f16"): (81920, (944, 3184, 10864, 21104)),
    ("gemma3-27b", "q8_0"): (43520, (501.5, 1691.5, 5771.5, 11211.5)),
    ("gemma3-27b", "q4_0"): (23040, (265.5, 895.5, 3055.5, 5935.5)),
    ("gemma3-27b", "tbq4_0"): (21120, (243.375, 820.875, 2800.875, 5440.875)),
    ("gemma3-27b", "planar3_0"): (16000, (184.375, 621.875, 2121.875, 4121.875)),
    ("gemma4-31b", "f16"): (81920, (1520, 3760, 11440, 21680)),
    ("gemma4-31b", "q8_0"): (43520, (807.5, 1997.5, 6077.5, 11517.5)),
    ("gemma4-31b", "q4_0"): (23040, (427.5, 1057.5, 3217.5, 6097.5)),
    ("gemma4-31b", "tbq4_0"): (21120, (391.875, 969.375, 2949.375, 5589.375)),
    ("gemma4-31b", "planar3_0"): (16000, (296.875, 734.375, 2234.375, 4234.375)),
    ("gpt-oss", "f16"): (24576, (114, 786, 3090, 6162)),
    ("gpt-oss", "q8_0"): (13056, (60.5625, 417.5625, 1641.5625, 3273.5625)),
    ("gpt-oss", "q4_0"): (6912, (32.0625, 221.0625, 869.0625, 1733.0625)),
    # heads of 64: half blocks of 34 bytes
    ("gpt-oss", "tbq4_0"): (6528, (30.28125, 208.78125, 820.78125, 1636.78125)),
}
MODELS = {
    "qwen36": QWEN36_27B,
    "smollm2": SMOLLM2,
    "llama31": LLAMA31_8B,
    "gemma3-4b": GEMMA3_4B,
    "gemma3-12b": GEMMA3_12B,
    "gemma3-27b": GEMMA3_27B,
    "gemma4-31b": GEMMA4_31B,
    "gpt-oss": GPT_OSS_20B,
    "heads-of-80": dense("phi2", 32, 5, 5, 80),
    "deepseek3": DEEPSEEK_V3,
    "deepseek2-lite": DEEPSEEK_V2_LITE,
}


def kv_bytes(model: str, kv: str, context: int, **settings) -> int:
    budget = estimate_budget(
        entry(MODELS[model]), LaunchSettings(context_tokens=context, **settings), TYPES[kv], TYPES[kv], free_bytes=None
    )
    assert not budget.unknown
    return budget.of(MemoryKind.KV)


@pytest.mark.parametrize(("row", "per_token"), GROWS.items(), ids=lambda x: str(x))
def test_a_model_that_keeps_everything_takes_exactly_its_bytes_per_token(row, per_token):
    for context in COLUMNS:
        assert kv_bytes(*row, context) == per_token * context


@pytest.mark.parametrize(("row", "want"), WINDOWED.items(), ids=lambda x: str(x))
def test_windowed_layers_stop_growing(row, want):
    per_token, columns = want
    assert [kv_bytes(*row, context) for context in COLUMNS] == [mib * MIB for mib in columns]
    assert kv_bytes(*row, 131072) - kv_bytes(*row, 32768) == per_token * (131072 - 32768)


def test_the_starter_at_8192_takes_180_mib():
    assert kv_bytes("smollm2", "f16", 8192) == 188_743_680


def test_a_hybrid_keeps_one_state_per_slot_and_more_only_to_undo_drafts():
    def state(**settings) -> int:
        budget = estimate_budget(
            entry(QWEN36_27B), LaunchSettings(**settings), TYPES["f16"], TYPES["f16"], free_bytes=None
        )
        return budget.of(MemoryKind.RECURRENT)

    assert state() == 156_893_184
    assert state(slots=3) == 3 * 156_893_184
    assert state(slots=2, speculation="draft-mtp") == 2 * 4 * 156_893_184
    assert state(speculation="draft-mtp", extra_args=("--spec-draft-n-max", "1")) == 2 * 156_893_184
    assert state(speculation="ngram-simple") == 156_893_184


def test_the_prediction_block_has_a_cache_of_its_own_only_while_it_drafts():
    def draft(**settings) -> int:
        chosen = LaunchSettings(context_tokens=262144, **settings)
        budget = estimate_budget(entry(QWEN36_27B), chosen, TYPES["q4_0"], TYPES["q4_0"], free_bytes=None)
        return budget.of(MemoryKind.DRAFT)

    assert draft() == 0
    assert draft(speculation="draft-mtp") == 1024 * MIB
    small = ("--spec-draft-type-k", "q8_0", "-ctvd", "q8_0")
    assert draft(speculation="draft-mtp", extra_args=small) == 544 * MIB


@pytest.mark.parametrize(
    ("kv", "mib"), [("tbq4_0", 47.8125), ("planar3_0", 36.5625), ("tcq4_0", 47.8125), ("tcq3_0", 36.5625)]
)
def test_the_starter_takes_half_blocks_of_the_rotated_types(kv, mib):
    assert kv_bytes("smollm2", kv, 8192) == mib * MIB


@pytest.mark.parametrize("model", ["heads-of-80", "deepseek3", "deepseek2-lite"])
@pytest.mark.parametrize("kv", ["tbq4_0", "planar3_0", "tcq4_0", "tcq3_0"])
def test_a_type_that_cannot_store_a_row_gives_no_number(model, kv):
    budget = estimate_budget(entry(MODELS[model]), LaunchSettings(), TYPES[kv], TYPES[kv], free_bytes=None)
    assert ("blocks of 64" if model == "heads-of-80" else "rotated") in budget.unknown
    assert budget.total_bytes is None
    assert budget.fits is None
