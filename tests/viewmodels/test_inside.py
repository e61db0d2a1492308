"""What the engine tells of itself becomes rows of text; what it does not tell has no row."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kvarn.domain.live.live_state import LiveState, parse_live
from kvarn.viewmodels.live.inside import SLOT_COLUMNS, inside_rows, slot_rows


def state(**members: Any) -> LiveState:
    """As the engine would send it."""
    live = parse_live(msgspec.json.encode({"version": 1, "seq": 1, "published": 1, **members}))
    assert live is not None
    return live


def row(live: LiveState, label: str):
    """The row of that label, None without one."""
    return next((found for found in inside_rows(live) if found.label == label), None)


def test_an_engine_that_tells_nothing_has_no_rows() -> None:
    assert inside_rows(state()) == ()
    assert slot_rows(state()) == []


def test_a_slot_reading_its_prompt_says_how_far_it_is() -> None:
    prompt = {"total": 1000, "cached": 200, "processed": 230}
    live = state(slots=[{"id": 0, "phase": "prefill", "n_ctx": 4096, "held": 430, "prompt": prompt}])
    cells = dict(zip((name.lstrip("<") for name in SLOT_COLUMNS), slot_rows(live)[0], strict=True))
    assert cells["phase"] == "reading the prompt, 43 %"
    assert cells["held"] == "430 of 4,096"
    assert cells["decode"] == "–"


@pytest.mark.parametrize("phase", ["checkpoint_save", "slot_restore", "a_new_one"])
def test_every_phase_has_words_without_underscores(phase: str) -> None:
    words = slot_rows(state(slots=[{"id": 3, "phase": phase}]))[0][1]
    assert words
    assert "_" not in words


def test_the_parts_of_a_step_fill_the_bar() -> None:
    last = {"tokens": 1, "decode_ms": 7.9, "sampling_ms": 0.3, "other_ms": 0.1}
    found = row(state(steps={"count": 9, "last": last}), "Last step")
    assert found.value == "8.3 ms"
    assert sum(part.share for part in found.shares) == pytest.approx(1)
    assert "sampling 0.3 ms" in found.detail


def test_acceptance_stands_by_position_and_unknown_is_not_zero() -> None:
    told = {"kind": "draft-mtp", "adaptive": True, "depth": 3, "depth_max": 8, "drafted": 100, "accepted": 94}
    found = row(state(speculation={**told, "acceptance": [0.96, 0.9, None]}), "Speculation")
    assert found.value == "depth 3 of 8 · 94 % accepted"
    assert found.columns == (0.96, 0.9, None)
    assert "96 %, 90 %, –" in found.detail


def test_checkpoints_are_held_against_their_budget() -> None:
    live = state(checkpoints={"count": 3, "bytes": 16 << 20, "budget_bytes": 64 << 20, "restored": 2, "evicted": 0})
    found = row(live, "Checkpoints")
    assert found.value == "3 · 16 MiB of 64 MiB"
    assert found.shares[0].share == 0.25
    assert found.detail == "restored 2"


def test_each_cache_has_a_row_and_a_recurrent_state_no_cells() -> None:
    full = {"kind": "full", "type_k": "tbq4_0", "type_v": "q8_0", "k_bytes": 1 << 20, "v_bytes": 1 << 20}
    caches = [{**full, "cells": 512, "cells_used": 128}, {"kind": "recurrent", "k_bytes": 3 << 20}]
    live = state(kv={"caches": [*caches, {**full, "context": "draft", "cells": 512, "cells_used": 0}]})
    labels = [found.label for found in inside_rows(live)]
    assert labels == ["KV cache", "Recurrent state", "KV cache (draft)"]
    assert row(live, "KV cache").value == "128 of 512 cells"
    assert row(live, "KV cache").detail == "tbq4_0/q8_0 · 2.0 MiB"
    assert row(live, "Recurrent state").value == "3.0 MiB"


def test_graphs_name_their_commonest_reasons_and_cuda_its_eager_runs() -> None:
    cuda = {"device": "CUDA0", "replays": 90, "captures": 4, "eager": {"warm_up": 6, "batch": 0}}
    reasons = {"kv_grew": 5, "no_previous": 1, "output_switch": 2, "outputs": 1}
    live = state(graphs={"ubatches": 100, "built": 9, "reused": 91, "reasons": reasons, "cuda": [cuda]})
    found = row(live, "Compute graphs")
    assert found.value == "9 built · 91 reused"
    assert found.detail.startswith("5 × attention spans more cache cells · ")
    assert found.detail.count("·") == 2
    assert row(live, "CUDA graphs, CUDA0").detail == "without a graph: 6 × warm up"
    assert row(live, "CUDA graphs, CUDA0").shares[0].share == 0.9
