"""The one way a measurement starts an engine: it is ready when the block begins and gone when it ends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

BENCH = Path(__file__).resolve().parents[1] / "packaging" / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    monkeypatch.syspath_prepend(str(BENCH))
    import served_engine

    return served_engine


def test_a_served_engine_answers_tells_its_metrics_and_ends_with_the_block(bench, fake_engine_dir, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_STARTUP_DELAY_S", "0.3")
    with bench.served(fake_engine_dir, Path("model.gguf"), "-c", "512") as engine:
        assert engine.answer("hello", 4, max_tokens=4)["predicted_n"] == 4
        assert engine.metrics("llamacpp:tokens_predicted_total") == {"llamacpp:tokens_predicted_total": 4.0}
        assert psutil.pid_exists(engine.pid)
    assert not psutil.pid_exists(engine.pid)


def test_an_engine_that_ends_before_it_is_ready_is_named_with_its_command(bench, fake_engine_dir, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_EXIT", "3")
    with (
        pytest.raises(SystemExit, match=r"did not start: .*model\.gguf"),
        bench.served(fake_engine_dir, Path("model.gguf")),
    ):
        pass
