"""How long one keystroke in the launch form costs: `uv run python packaging/bench/plan_estimate.py`."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

from kvarn.domain.kv_type import STOCK_KV_TYPES
from kvarn.domain.launch.check_draft import check_draft
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.estimate import estimate_budget
from kvarn.domain.launch.launch_plan import LaunchDraft, LaunchSettings
from kvarn.domain.library.model_entry import ModelEntry, ModelSource
from kvarn.domain.library.model_facts import ModelFacts

ROUNDS = 500
LAYERS = 120

FACTS = ModelFacts(
    architecture="gemma4",
    name="many layers of two kinds",
    general={},
    hparams={
        "block_count": LAYERS,
        "context_length": 131072,
        "embedding_length": 8192,
        "feed_forward_length": 32768,
        "attention.head_count": 64,
        "attention.head_count_kv": (16, 16, 16, 16, 16, 4) * (LAYERS // 6),
        "attention.key_length": 512,
        "attention.value_length": 512,
        "attention.key_length_swa": 256,
        "attention.value_length_swa": 256,
        "attention.sliding_window": 1024,
        "attention.sliding_window_pattern": (True, True, True, True, True, False) * (LAYERS // 6),
    },
    vocab_size=262144,
    tokenizer_model="llama",
    chat_template=True,
    tensors=None,
)
MODEL = ModelEntry(
    id="bench", title="bench", paths=(Path("bench.gguf"),), source=ModelSource.FOLDER, file_bytes=10**10, facts=FACTS
)
ENGINE = EngineBuild(
    server=Path("llama-server"),
    bin_dir=Path(),
    base="",
    version="",
    is_kvarn=True,
    kv_types=STOCK_KV_TYPES,
)
Q8_0 = next(kv for kv in STOCK_KV_TYPES if kv.name == "q8_0")


def _milliseconds(call: Callable[[LaunchSettings], object]) -> tuple[float, float]:
    times = []
    for step in range(ROUNDS):
        start = time.thread_time()
        call(LaunchSettings(context_tokens=256 * (1 + step), kv_k="q8_0", kv_v="q8_0"))
        times.append((time.thread_time() - start) * 1000)
    return statistics.median(times), statistics.quantiles(times, n=100)[98]


def main() -> None:
    """Print median and 99th percentile of both calls in CPU time; they must stay below 5 ms."""
    calls = {
        "estimate_budget": lambda settings: estimate_budget(MODEL, settings, Q8_0, Q8_0, free_bytes=1 << 40),
        "check_draft": lambda settings: check_draft(LaunchDraft(model=MODEL, settings=settings), ENGINE),
    }
    for name, call in calls.items():
        median, high = _milliseconds(call)
        print(f"{name:<16} median {median:6.3f} ms   p99 {high:6.3f} ms   ({LAYERS} layers, {ROUNDS} calls)")


if __name__ == "__main__":
    main()
