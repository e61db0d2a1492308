"""Our patches leave what is computed alone: answers and probabilities equal the unpatched engine's to the last digit.

Over f16: a quantised cache is read by kernels of ours, in another order of sums (`test_flash_attention.py`).
Needs an unpatched build of the pinned base; name its folder of programs in KVARN_STOCK_DIR.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif("KVARN_STOCK_DIR" not in os.environ, reason="KVARN_STOCK_DIR names no unpatched engine"),
]


def test_greedy_answers_and_their_probabilities_are_the_unpatched_engines(start_server):
    options = ("-c", "1024", "-np", "1", "-fa", "on")
    answers = []
    for programs in (None, Path(os.environ["KVARN_STOCK_DIR"])):
        with start_server(*options, programs=programs) as server:
            answer = server.complete("The mill by the river", n_predict=48, n_probs=5, ignore_eos=True)
            answers.append((answer["content"], answer["completion_probabilities"]))
    assert answers[0] == answers[1]
