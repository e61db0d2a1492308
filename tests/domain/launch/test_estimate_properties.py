"""What must hold for every model and every setting: more context never takes less, padding is bounded."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from known_models import GEMMA3_4B, GEMMA4_31B, GPT_OSS_20B, QWEN36_27B, SMOLLM2, TYPES, dense, entry
from kvarn.domain.launch.attention_layout import attention_layout
from kvarn.domain.launch.check_draft import check_draft
from kvarn.domain.launch.decode_speed import step_bytes
from kvarn.domain.launch.estimate import estimate_budget
from kvarn.domain.launch.launch_plan import FlashAttention, LaunchDraft, LaunchSettings
from kvarn.domain.launch.memory_budget import MemoryKind

MODELS = st.sampled_from([GEMMA3_4B, GEMMA4_31B, GPT_OSS_20B, QWEN36_27B, SMOLLM2])
KV = st.sampled_from(["f32", "f16", "q8_0", "q5_1", "q4_0", "iq4_nl"])
SETTINGS = st.builds(
    LaunchSettings,
    context_tokens=st.integers(1, 200_000),
    slots=st.integers(1, 16),
    kv_unified=st.booleans(),
    ubatch_tokens=st.integers(1, 4096),
    batch_tokens=st.integers(1, 8192),
    swa_full=st.booleans(),
    speculation=st.sampled_from(["none", "draft-mtp"]),
)


def kv_bytes(model, settings, k="f16", v="f16") -> int:
    budget = estimate_budget(entry(model), settings, TYPES[k], TYPES[v], free_bytes=None)
    assert not budget.unknown
    return budget.of(MemoryKind.KV) + budget.of(MemoryKind.DRAFT) + budget.of(MemoryKind.RECURRENT)


@given(MODELS, SETTINGS, KV, KV, st.integers(1, 50_000))
def test_more_context_never_takes_less(model, settings, k, v, more):
    larger = msgspec.structs.replace(settings, context_tokens=settings.context_tokens + more)
    assert kv_bytes(model, larger, k, v) >= kv_bytes(model, settings, k, v)


@given(MODELS, SETTINGS, st.integers(1, 8))
def test_more_slots_never_take_less(model, settings, more):
    larger = msgspec.structs.replace(settings, slots=settings.slots + more)
    assert kv_bytes(model, larger) >= kv_bytes(model, settings)


@given(MODELS, SETTINGS)
def test_windows_only_ever_save_memory(model, settings):
    full = msgspec.structs.replace(settings, swa_full=True)
    assert kv_bytes(model, settings) <= kv_bytes(model, full)


@given(MODELS, SETTINGS, KV, KV)
def test_fewer_bits_never_take_more(model, settings, k, v):
    low, high = sorted((TYPES[k], TYPES[v]), key=lambda kv: kv.bits_per_value)
    assert kv_bytes(model, settings, low.name, low.name) <= kv_bytes(model, settings, high.name, high.name)


@given(MODELS, SETTINGS)
def test_no_cache_is_smaller_than_the_tokens_it_was_asked_to_hold(model, settings):
    layout = attention_layout(model)
    per_token = sum(g.layers * (g.k_row + g.v_row) * 2 for g in layout.kv if not g.is_window)
    asked = settings.context_tokens * (1 if settings.kv_unified else settings.slots)
    budget = estimate_budget(entry(model), settings, TYPES["f16"], TYPES["f16"], free_bytes=None)
    assert budget.of(MemoryKind.KV) >= asked * per_token


@given(MODELS, KV, st.integers(0, 100_000), st.integers(0, 100_000))
def test_deeper_never_reads_fewer_bytes(model, kv, depth, more):
    from known_models import tensors

    listed = entry(msgspec.structs.replace(model, tensors=tensors(10**9)))
    kind = TYPES[kv]
    assert step_bytes(listed, kind, kind, depth + more) >= step_bytes(listed, kind, kind, depth)


ANY_NUMBER = st.integers(-(2**40), 2**40)
ANY_TEXT = st.text(max_size=20)


@given(
    st.builds(
        LaunchSettings,
        kv_k=ANY_TEXT,
        kv_v=KV,
        context_tokens=ANY_NUMBER,
        slots=ANY_NUMBER,
        batch_tokens=ANY_NUMBER,
        ubatch_tokens=ANY_NUMBER,
        threads=st.none() | ANY_NUMBER,
        gpu_layers=st.none() | ANY_NUMBER,
        port=ANY_NUMBER,
        host=ANY_TEXT,
        alias=ANY_TEXT,
        speculation=ANY_TEXT,
        flash_attention=st.sampled_from(FlashAttention),
        extra_args=st.lists(ANY_TEXT, max_size=4).map(tuple),
    )
)
def test_no_draft_however_odd_raises(settings):
    from known_models import build

    planning = check_draft(LaunchDraft(model=entry(SMOLLM2), settings=settings), build())
    assert (planning.plan is None) == bool(planning.blocking)
    assert all(p.message and p.remedy and p.code for p in planning.problems)
    estimate_budget(entry(SMOLLM2), settings, TYPES["q8_0"], TYPES["q4_0"], free_bytes=1)


WILD = st.integers(-5, 2**33) | st.floats() | st.text(max_size=5) | st.lists(st.integers(0, 9), max_size=5).map(tuple)
KEYS = sorted({key for model in (GEMMA4_31B, QWEN36_27B, GPT_OSS_20B) for key in model.hparams})


@given(MODELS, st.dictionaries(st.sampled_from(KEYS), WILD, max_size=4), SETTINGS)
def test_no_header_however_odd_raises_or_gives_a_negative_number(model, damage, settings):
    odd = msgspec.structs.replace(model, hparams={**model.hparams, **damage})
    budget = estimate_budget(entry(odd), settings, TYPES["q8_0"], TYPES["q8_0"], free_bytes=None)
    assert all(part.bytes >= 0 for part in budget.parts)
    assert bool(budget.unknown) != bool(budget.parts)


def test_a_small_model_is_in_the_property_set_too():
    assert kv_bytes(dense("llama", 1, 1, 1, 32), LaunchSettings(context_tokens=1)) == 256 * 2 * 32 * 2
