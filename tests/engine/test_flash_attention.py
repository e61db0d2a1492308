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


@pytest.mark.parametrize("kv_type", ["q8_0", "q4_0", "tcq4_0"])
def test_a_prompt_read_in_one_batch_or_token_by_token_gives_the_same_probabilities(start_server, kv_type):
    """One batch takes the tiled path, single tokens the path split over cached rows; both must see the same cache."""
    prompt = [1000 + 7 * n for n in range(150)]
    options = ("-c", "512", "-np", "1", "-fa", "on", "-ctk", kv_type, "-ctv", kv_type)
    found = []
    for batch in ("256", "1"):
        with start_server(*options, "-b", "256", "-ub", batch) as server:
            answer = server.complete(prompt, n_predict=1, n_probs=20)
            found.append({p["id"]: p["logprob"] for p in answer["completion_probabilities"][0]["top_logprobs"]})
    whole, single = found
    shared = whole.keys() & single.keys()
    assert len(shared) >= 15
    assert max(abs(whole[token] - single[token]) for token in shared) < 0.2
