"""Flash attention over a quantised cache: the kernels against a reference, and a whole model on either path."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.engine

# Every fifth shape: all of them take minutes on a busy machine, and 5 shares no factor with the loops that make them.
STRIDE = "5"


def test_the_kernels_agree_with_the_reference_over_odd_shapes(engine_dir, engine_build_info):
    program = engine_dir / ("test-kvarn-flash-attn.exe" if sys.platform == "win32" else "test-kvarn-flash-attn")
    run = subprocess.run([str(program), STRIDE], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    assert "\n0 of " in "\n" + run.stdout


def probabilities(start_server, kv_type: str, batch: str) -> dict[int, float]:
    """Log probabilities of the 200 likeliest tokens after a prompt that was read so many tokens at a time."""
    prompt = [1000 + 7 * n for n in range(150)]
    options = ("-c", "512", "-np", "1", "-fa", "on", "-ctk", kv_type, "-ctv", kv_type)
    with start_server(*options, "-b", "256", "-ub", batch) as server:
        answer = server.complete(prompt, n_predict=1, n_probs=200)
    return {p["id"]: p["logprob"] for p in answer["completion_probabilities"][0]["top_logprobs"]}


def distance(base: dict[int, float], other: dict[int, float]) -> float:
    """Mean difference in log probability of the twenty tokens that are likeliest in `base`."""
    likeliest = sorted(base, key=lambda token: -base[token])[:20]
    assert all(token in other for token in likeliest)
    return sum(abs(base[token] - other[token]) for token in likeliest) / len(likeliest)


@pytest.fixture(scope="module")
def f16(start_server) -> dict[str, dict[int, float]]:
    """Upstream's attention over f16, by batch. The two differ, for the products with the weights do (0.09 on AVX2)."""
    return {batch: probabilities(start_server, "f16", batch) for batch in ("256", "1")}


@pytest.mark.parametrize("kv_type", ["q8_0", "q4_0", "tbq4_0", "tcq4_0"])
def test_a_prompt_read_in_one_batch_or_token_by_token_is_as_near_to_f16(start_server, f16, kv_type):
    """One batch takes the tiled path, single tokens the path split over cached rows; both must see the same cache.

    Not compared with each other: a rounding can lead a trellis along another path, as far from the values as the first.
    """
    whole, single = (distance(f16[batch], probabilities(start_server, kv_type, batch)) for batch in ("256", "1"))
    weights = distance(f16["256"], f16["1"])
    assert single < 2 * whole + weights
    assert whole < 2 * single + weights
