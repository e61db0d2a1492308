"""A quantised K cache without rotation survives a context shift (upstream crashed on a null tensor)."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("rotation_off", ["1", "0"])
def test_an_answer_longer_than_the_context_goes_on_after_the_shift(start_server, rotation_off):
    options = ("-c", "256", "-np", "1", "-ctk", "q8_0", "-fa", "on", "--context-shift")
    with start_server(*options, env={"LLAMA_ATTN_ROT_DISABLE": rotation_off}) as server:
        answer = server.complete([1000 + n for n in range(230)], n_predict=50, ignore_eos=True)
        assert answer["tokens_predicted"] == 50
        assert answer["truncated"] is True
        assert server.process.poll() is None
