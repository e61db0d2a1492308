"""The library as a table."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from PySide6.QtCore import Qt

from kvarn.domain.library.model_entry import ModelEntry, ModelProblem, ModelSource
from kvarn.domain.library.model_facts import ModelFacts, TensorFacts
from kvarn.viewmodels.library.entry_text import box_text, fact_lines, summary_text
from kvarn.viewmodels.library.model_table import COLUMNS, ModelTable
from patience import cpu_budget


def entry(title: str, *, size: int = 1 << 20, context: int | None = 4096, problem: str = "") -> ModelEntry:
    tensors = TensorFacts(
        count=1,
        total_bytes=size,
        token_embd_bytes=0,
        output_bytes=0,
        routed_expert_bytes=0,
        bytes_by_type={"Q4_K": size, "F32": 1},
    )
    facts = ModelFacts(
        architecture="llama",
        name=title,
        general={"license": "mit"},
        hparams={"context_length": context} if context else {},
        vocab_size=None,
        tokenizer_model=None,
        chat_template=False,
        tensors=tensors,
    )
    return ModelEntry(
        id=title,
        title=title,
        paths=(Path("/models") / f"{title}.gguf",),
        source=ModelSource.FOLDER,
        file_bytes=size,
        facts=facts,
        problem=ModelProblem("broken", problem) if problem else None,
    )


def titles(table: ModelTable) -> list[str]:
    return [table.index(row, 0).data() for row in range(table.rowCount())]


def column(heading: str) -> int:
    return [c.heading for c in COLUMNS].index(heading)


@pytest.fixture
def table(qapp) -> ModelTable:
    table = ModelTable()
    table.set_entries((entry("beta", size=3 << 30), entry("Alpha", size=1 << 20, context=None), entry("gamma")))
    return table


def test_rows_sort_by_value_not_by_text(table: ModelTable) -> None:
    assert titles(table) == ["Alpha", "beta", "gamma"]
    table.sort(column("Size"), Qt.SortOrder.DescendingOrder)
    assert titles(table)[0] == "beta"


def test_every_word_of_the_filter_must_occur_somewhere(table: ModelTable) -> None:
    table.set_filter("models BETA")
    assert titles(table) == ["beta"]
    table.set_filter("beta gamma")
    assert titles(table) == []


def test_what_a_file_does_not_state_is_a_dash(table: ModelTable) -> None:
    assert table.index(0, column("Context")).data() == "–"
    assert table.index(1, column("Weights")).data() == "Q4_K"


def test_a_broken_file_tells_its_reason_wherever_it_is_shown(qapp) -> None:
    broken = entry("cut", problem="incomplete: 4 of 9 bytes.")
    table = ModelTable()
    table.set_entries((broken,))
    assert table.index(0, column("Status")).data() == "incomplete: 4 of 9 bytes."
    assert summary_text(broken) == "incomplete: 4 of 9 bytes."
    assert dict(fact_lines(broken))["Status"] == "incomplete: 4 of 9 bytes."


def test_the_box_names_the_weights_once() -> None:
    assert box_text(entry("SmolLM2-135M-Instruct.q4_k_m")) == "SmolLM2-135M-Instruct.q4_k_m"
    assert box_text(entry("SmolLM2")) == "SmolLM2 · Q4_K"


def test_two_thousand_models_are_shown_filtered_and_sorted_within_a_blink(qapp) -> None:
    table = ModelTable()
    many = tuple(entry(f"model-{number:04d}", size=(number * 7919) % 100_000) for number in range(2000))
    start = time.thread_time()
    table.set_entries(many)
    table.sort(column("Size"))
    table.set_filter("model-19")
    assert time.thread_time() - start < cpu_budget(0.5)
    assert table.rowCount() == 100
