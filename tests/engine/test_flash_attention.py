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


def batch_difference(start_server, kv_type: str) -> tuple[int, float]:
    """Likeliest tokens in common, and their largest difference in log probability, of one batch and single tokens."""
    prompt = [1000 + 7 * n for n in range(150)]
    options = ("-c", "512", "-np", "1", "-fa", "on", "-ctk", kv_type, "-ctv", kv_type)
    found = []
    for batch in ("256", "1"):
        with start_server(*options, "-b", "256", "-ub", batch) as server:
            answer = server.complete(prompt, n_predict=1, n_probs=20)
            found.append({p["id"]: p["logprob"] for p in answer["completion_probabilities"][0]["top_logprobs"]})
    whole, single = found
    shared = whole.keys() & single.keys()
    return len(shared), max(abs(whole[token] - single[token]) for token in shared)


@pytest.fixture(scope="module")
def weights_difference(start_server) -> float:
    """What the products with the weights differ by, under upstream's attention over f16: 0.22 on AVX2."""
    return batch_difference(start_server, "f16")[1]


@pytest.mark.parametrize("kv_type", ["q8_0", "q4_0", "tcq4_0"])
def test_a_prompt_read_in_one_batch_or_token_by_token_gives_the_same_probabilities(
    start_server, weights_difference, kv_type
):
    """One batch takes the tiled path, single tokens the path split over cached rows; both must see the same cache."""
    shared, difference = batch_difference(start_server, kv_type)
    assert shared >= 12
    assert difference < 0.2 + 3 * weights_difference
