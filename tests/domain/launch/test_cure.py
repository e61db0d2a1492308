"""A cure is only offered when it really removes the problem."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from kvarn.domain.kv_type import STOCK_KV_TYPES
from kvarn.domain.launch.check_draft import check_draft
from kvarn.domain.launch.cure import find_cure
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.launch_plan import FlashAttention, LaunchDraft, LaunchSettings, PlanProblem
from kvarn.domain.library.model_entry import ModelEntry, ModelSource
from kvarn.domain.library.model_facts import ModelFacts

BUILD = EngineBuild(
    server=Path("/e/llama-server"),
    bin_dir=Path("/e"),
    base="unknown",
    version="1",
    is_kvarn=False,
    kv_types=STOCK_KV_TYPES,
    flags=frozenset({"--spec-type", "--verbose", "--cache-type-k"}),
)


def draft_of(head: int = 64, **settings: Any) -> LaunchDraft:
    facts = ModelFacts(
        architecture="llama",
        name="m",
        general={},
        hparams={
            "context_length": 8192,
            "block_count": 2,
            "embedding_length": head * 4,
            "attention.head_count": 4,
            "attention.head_count_kv": 2,
        },
        vocab_size=300,
        tokenizer_model="llama",
        chat_template=False,
        tensors=None,
    )
    model = ModelEntry(
        id="m", title="m", paths=(Path("/m.gguf"),), source=ModelSource.FOLDER, file_bytes=1, facts=facts
    )
    return LaunchDraft(model=model, settings=LaunchSettings(**settings))


def only_problem(draft: LaunchDraft) -> PlanProblem:
    (problem,) = check_draft(draft, BUILD).problems
    return problem


@pytest.mark.parametrize(
    ("settings", "label", "cured"),
    [
        ({"kv_k": "Q8_0", "kv_v": "f16"}, "Use q8_0", {"kv_k": "q8_0"}),
        ({"kv_v": "nonsense"}, "Use q8_0", {"kv_v": "q8_0"}),
        (
            {"kv_v": "q4_0", "flash_attention": FlashAttention.OFF},
            "Set flash attention to auto",
            {"flash_attention": FlashAttention.AUTO},
        ),
        ({"context_tokens": 5000}, "Use 5,120 tokens", {"context_tokens": 5120}),
        ({"context_tokens": -1}, "Use 8,192 tokens", {"context_tokens": 8192}),
        ({"context_tokens": 16384}, "Use 8,192 tokens", {"context_tokens": 8192}),
        ({"ubatch_tokens": 4096}, "Use a batch of 4,096", {"batch_tokens": 4096}),
        ({"kv_pad": 300}, "Let it grow with the text", {"kv_pad": None}),
        ({"gpu_layers": 12}, "Let the engine decide", {"gpu_layers": None}),
        ({"speculation": "draft-mtp"}, "Switch speculation off", {"speculation": "none"}),
        ({"port": 0}, "Use port 5827", {"port": 5827}),
        ({"host": "0.0.0.0"}, "This computer only", {"host": "127.0.0.1"}),
        (
            {"extra_args": ("--verbose", "--api-key", "secret")},
            "Remove --api-key",
            {"extra_args": ("--verbose",)},
        ),
        ({"slots": 2, "kv_unified": True}, "Give each slot its own context", {"kv_unified": False}),
    ],
)
def test_the_cure_of_a_problem_leaves_none(settings: dict[str, Any], label: str, cured: dict[str, Any]) -> None:
    draft = draft_of(**settings)
    cure = find_cure(only_problem(draft), draft, BUILD)
    assert cure is not None
    assert cure.label == label
    assert cure.settings == msgspec.structs.replace(draft.settings, **cured)
    assert check_draft(msgspec.structs.replace(draft, settings=cure.settings), BUILD).problems == ()


def test_a_head_that_no_block_divides_gets_f16() -> None:
    draft = draft_of(head=80, kv_k="q8_0")
    cure = find_cure(only_problem(draft), draft, BUILD)
    assert cure is not None
    assert cure.settings.kv_k == "f16"


def test_what_only_a_person_can_decide_has_no_cure() -> None:
    draft = msgspec.structs.replace(draft_of(), model=None)
    assert find_cure(only_problem(draft), draft, BUILD) is None
