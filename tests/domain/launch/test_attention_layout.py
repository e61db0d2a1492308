"""Layers read off headers: the patterns of each family, and odd headers that must not become a number."""

from __future__ import annotations

import pytest

from gguf_maker import GgufMaker
from known_models import TYPES, dense, entry, facts
from kvarn.domain.launch import architectures as arch
from kvarn.domain.launch.attention_layout import AttentionLayout, UnknownLayout, attention_layout
from kvarn.domain.launch.estimate import estimate_budget
from kvarn.domain.launch.launch_plan import FlashAttention, LaunchSettings
from kvarn.domain.launch.memory_budget import MemoryKind
from kvarn.services.library.find_model import entry_from_path


def layers(model) -> dict[str, int]:
    layout = attention_layout(model)
    assert isinstance(layout, AttentionLayout), layout
    found = {"full": 0, "window": 0, "recurrent": layout.recurrent_layers}
    for group in layout.kv:
        found["window" if group.is_window else "full"] += group.layers
    return found


@pytest.mark.parametrize(
    ("model", "full", "window"),
    [
        (dense("gemma2", 26, 8, 4, 256), 13, 13),
        (dense("gemma2", 26, 8, 4, 256, attention__sliding_window_pattern=3), 8, 18),
        (dense("gemma3", 26, 4, 1, 256, attention__sliding_window=512), 4, 22),
        (dense("gemma3", 26, 4, 1, 256), 26, 0),
        (dense("gemma3n", 30, 8, 2, 256, attention__sliding_window=512), 4, 16),
        (dense("llama4", 48, 40, 8, 128), 12, 36),
        (dense("llama4", 48, 40, 8, 128, attention__sliding_window=0), 48, 0),
        (dense("cohere2moe", 32, 32, 8, 128, attention__sliding_window=4096), 8, 24),
        (dense("exaone4", 64, 40, 8, 128), 16, 48),
        (dense("exaone4", 30, 32, 8, 64, attention__sliding_window=4096), 30, 0),
        (dense("phi3", 32, 32, 32, 96, attention__sliding_window=2047), 32, 0),
        (dense("smallthinker", 32, 28, 4, 128, attention__sliding_window=1), 8, 24),
        (dense("nanbeige", 16, 16, 4, 128, num_loops=3), 48, 0),
    ],
    ids=lambda x: getattr(x, "architecture", x),
)
def test_each_family_has_its_window_pattern(model, full, window):
    assert layers(model) == {"full": full, "window": window, "recurrent": 0}


def test_llama4_windows_hold_8192_tokens_whatever_the_header_says():
    layout = attention_layout(dense("llama4", 48, 40, 8, 128, attention__sliding_window=1234))
    assert layout.window_tokens == 8192


def test_layers_that_share_their_kv_keep_none_of_their_own():
    shared = dense(
        "gemma4",
        35,
        8,
        2,
        512,
        attention__key_length_swa=256,
        attention__value_length_swa=256,
        attention__sliding_window=512,
        attention__sliding_window_pattern=(True, True, True, True, False) * 7,
        attention__shared_kv_layers=20,
    )
    assert layers(shared) == {"full": 3, "window": 12, "recurrent": 0}


def test_hybrids_divide_their_layers_as_the_engine_does():
    state = {"ssm__conv_kernel": 4, "ssm__state_size": 128, "ssm__inner_size": 4096, "ssm__group_count": 8}
    granite = dense("granitehybrid", 4, 16, (0, 0, 4, 0), 128, **state)
    assert layers(granite) == {"full": 1, "window": 0, "recurrent": 3}
    falcon = dense("falcon-h1", 6, 12, 2, 64, **state)
    assert layers(falcon) == {"full": 6, "window": 0, "recurrent": 6}
    nemotron = dense("nemotron_h", 4, 16, (0, 8, 0, 0), 128, feed_forward_length=(0, 0, 9216, 0), **state)
    assert layers(nemotron) == {"full": 1, "window": 0, "recurrent": 2}
    listed = dense("qwen3next", 4, 16, 2, 256, attention__recurrent_layers=(True, False, False, True), **state)
    assert layers(listed) == {"full": 2, "window": 0, "recurrent": 2}
    liquid = dense("lfm2", 4, 32, (0, 8, 0, 8), 64, shortconv__l_cache=3, attention__sliding_window=1024)
    assert layers(liquid) == {"full": 0, "window": 2, "recurrent": 2}


@pytest.mark.parametrize(
    ("model", "row"),
    [
        (dense("mamba", 2, 0, 0, 0, embedding_length=768, ssm__conv_kernel=4, ssm__inner_size=1536, ssm__state_size=16),
         3 * 1536 + 16 * 1536),
        (facts("rwkv7", block_count=2, embedding_length=768, wkv__head_size=64), 2 * 768 + 768 * 64),
        (dense("lfm2", 2, 32, (0, 8), 64, shortconv__l_cache=3), 2048 * 2),
        (dense("kimi-linear", 2, 32, (0, 1), 576, attention__value_length=512, attention__key_length_mla=192,
               attention__value_length_mla=128, kda__head_dim=128, ssm__conv_kernel=4),
         3 * 3 * 32 * 128 + 128 * 128 * 32),
    ],
    ids=lambda x: getattr(x, "architecture", x),
)  # fmt: skip
def test_recurrent_state_has_the_engines_size(model, row):
    assert attention_layout(model).recurrent_row == row


def test_mla_stores_one_latent_row_and_no_v():
    old_file = dense("deepseek2", 27, 16, 16, 192, attention__value_length=128)
    assert not attention_layout(old_file).is_mla
    new_file = dense("deepseek2", 27, 16, 1, 576, attention__key_length_mla=192, attention__value_length_mla=128)
    (group,) = attention_layout(new_file).kv
    assert (group.k_row, group.v_row) == (576, 0)


def test_v_rows_are_padded_to_the_widest_when_flash_attention_is_off():
    model = dense("deci", 2, 32, (8, 2), 128)
    on, off = (
        estimate_budget(
            entry(model),
            LaunchSettings(flash_attention=FlashAttention(mode)),
            TYPES["f16"],
            TYPES["f16"],
            free_bytes=None,
        ).of(MemoryKind.KV)
        for mode in ("on", "off")
    )
    assert on == 8192 * 2 * (1024 + 1024 + 256 + 256)
    assert off == 8192 * 2 * (1024 + 1024 + 256 + 1024)


def test_no_architecture_is_in_two_tables():
    tables = [arch.PLAIN, arch.NO_CACHE, arch.RECURRENT, set(arch.WINDOWED), set(arch.INTERVAL), arch.ZERO_HEADS]
    names = [name for table in [*tables, arch.NEMOTRON] for name in table]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"block_count": 0}, "block_count"),
        ({"block_count": 4_000_000_000}, "block_count"),
        ({"attention__head_count": 0, "attention__head_count_kv": 0}, "attention heads"),
        ({"attention__head_count_kv": 0}, "without any K/V heads"),
        ({"attention__head_count_kv": (1, 2)}, "head_count_kv"),
        ({"attention__head_count_kv": (1, "x", 3)}, "head_count_kv"),
        ({"attention__key_length": -128}, "key_length"),
        ({"attention__key_length": 1.5}, "key_length"),
        ({"attention__key_length": 1 << 31}, "key_length"),
        ({"embedding_length": "wide"}, "embedding_length"),
        ({"nextn_predict_layers": 9}, "nextn_predict_layers"),
    ],
)
def test_numbers_that_cannot_be_right_give_a_reason_and_no_number(change, word):
    odd = dense("llama", 3, 4, 2, 64)
    odd.hparams.update({key.replace("__", "."): value for key, value in change.items()})
    if "embedding_length" in change:
        del odd.hparams["attention.key_length"]
    layout = attention_layout(odd)
    assert isinstance(layout, UnknownLayout)
    assert word in layout.reason
    budget = estimate_budget(entry(odd), LaunchSettings(), TYPES["f16"], TYPES["f16"], free_bytes=1)
    assert (budget.total_bytes, budget.fits, budget.unknown) == (None, None, layout.reason)


@pytest.mark.parametrize("name", ["qa-made-up", "deepseek4", "clip", "eagle3"])
def test_an_architecture_we_do_not_understand_is_named_as_such(name):
    layout = attention_layout(dense(name, 3, 4, 2, 64))
    assert isinstance(layout, UnknownLayout)
    assert name in layout.reason


@pytest.mark.parametrize("missing", ["gemma4", "gpt-oss", "cohere2"])
def test_a_header_without_the_window_the_engine_demands_is_unknown(missing):
    assert isinstance(attention_layout(dense(missing, 12, 8, 2, 64)), UnknownLayout)


def header(tmp_path, name: str, kv_heads, **hparams):
    """A header-only file through the library's own reader."""
    maker = GgufMaker(name)
    given = {"context_length": 8192, "attention.head_count": 16, **hparams}
    for key, value in given.items():
        maker.hparam(key, value)
    if kv_heads is not None:
        maker.hparam("attention.head_count_kv", kv_heads)
    path = tmp_path / "header.gguf"
    maker.write(path)
    return entry_from_path(path)


@pytest.mark.parametrize(
    ("name", "kv_heads", "hparams", "want"),
    [
        ("llama", 3, {"embedding_length": 576, "block_count": 30, "attention.head_count": 9}, 188_743_680),
        ("llama", None, {"embedding_length": 576, "block_count": 30, "attention.head_count": 9}, 3 * 188_743_680),
        ("qwen3", 8, {"embedding_length": 1024, "block_count": 28, "attention.key_length": 128,
                      "attention.value_length": 128}, 8192 * 28 * 2 * 8 * 128 * 2),
        # 20 windowed layers hold window + batch step = 1536 cells, 4 hold all 8192.
        ("gemma4", [8, 8, 8, 8, 8, 1] * 4, {
            "embedding_length": 3840, "block_count": 24, "attention.key_length": 512, "attention.value_length": 512,
            "attention.key_length_swa": 256, "attention.value_length_swa": 256, "attention.sliding_window": 1024,
            "attention.sliding_window_pattern": [True, True, True, True, True, False] * 4,
        }, 20 * 1536 * 8 * 256 * 4 + 4 * 8192 * 512 * 4),
    ],
    ids=["grouped heads", "heads not grouped", "stated head size", "window and heads by layer"],
)  # fmt: skip
def test_files_that_mislead_simple_estimators_are_estimated_right(tmp_path, name, kv_heads, hparams, want):
    model = header(tmp_path, name, kv_heads, **hparams)
    budget = estimate_budget(model, LaunchSettings(), TYPES["f16"], TYPES["f16"], free_bytes=None)
    # The file has no tensors and is listed with that reason; its layout is known all the same.
    facts_only = entry(model.facts)
    budget = estimate_budget(facts_only, LaunchSettings(), TYPES["f16"], TYPES["f16"], free_bytes=None)
    assert budget.of(MemoryKind.KV) == want
