"""`--kv-pad`: graph builds as the arithmetic says, the same answers for any padding, and refusals in a sentence."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.engine

TINY = Path(__file__).parents[1] / "data" / "tiny-hybrid-mtp-random.gguf"
LONG = ("--override-kv", "qwen35.context_length=int:65536", "--ctx-checkpoints", "0", "--cache-ram", "0")
"""The model's own limit is no matter here, and a checkpoint would split the prompt at places of its own."""
BUILT, REUSED = "kvarn:graph_built_total", "kvarn:graph_reused_total"
STEP = 64
"""Tokens of one compute step of a prompt."""


def fixed(pad: int) -> Callable[[int], int]:
    return lambda n: max(pad, -(-n // pad) * pad)


def growing(n: int) -> int:
    """P(n) = clamp(pow2floor(n/8), 256, 16384), and n rounded up to it."""
    power = 1 << max(n // 8, 1).bit_length() - 1
    return fixed(min(max(power, 256), 16384))(n)


def crossings(spans: Callable[[int], int], cells: list[int]) -> int:
    return sum(spans(a) < spans(b) for a, b in itertools.pairwise(cells))


def reason(name: str) -> str:
    return f'kvarn:graph_rebuild_total{{reason="{name}"}}'


def text_of(length: int) -> list[int]:
    """Token ids below 256, without a period that a slip of one position would hide in."""
    return [(7 * i + i // 13) % 251 for i in range(length)]


@pytest.mark.parametrize(
    ("pad", "spans", "builds"), [("256", fixed(256), 128), ("4096", fixed(4096), 8), ("auto", growing, 40)]
)
def test_32768_positions_are_built_as_often_as_the_arithmetic_says(start_server, pad, spans, builds):
    prompt, whole = 507 * STEP, 32768
    steps = [*range(STEP, prompt + 1, STEP), *range(prompt + 1, whole + 1)]
    assert 1 + crossings(spans, steps) == builds == len({spans(n) for n in range(1, whole + 1)})
    options = ("-c", "33024", "-np", "1", "-b", str(STEP), "-ub", str(STEP), "-fa", "on", *LONG, "--kv-pad", pad)
    with start_server(*options, model=TINY) as server:
        before, graphs = server.metrics(), server.live()["graphs"]
        answer = server.complete(text_of(prompt), n_predict=whole - prompt + 1, ignore_eos=True)
        after, live = server.metrics(), server.live()
    assert live["graphs"]["reasons"]["kv_grew"] - graphs["reasons"]["kv_grew"] == builds - 1
    assert live["graphs"]["ubatches"] - graphs["ubatches"] == len(steps)
    assert live["kv"]["pad"]["policy"] == ("auto" if pad == "auto" else "fixed")
    changes = {name: after[name] - value for name, value in before.items()}
    assert answer["timings"]["prompt_n"] == prompt
    assert changes[reason("kv_grew")] == builds - 1
    assert changes[reason("kv_shrank")] == 0
    assert changes[BUILT] + changes[REUSED] == changes["llamacpp:n_decode_total"] == len(steps)
    # Beside the crossings: the first step, the recurrent state that is there from then on, the step with the output,
    # and the first token after it.
    others = {"output_switch": 2, "batch_shape": 1, "inputs": 1}
    assert {name: changes[reason(name)] for name in others} == others
    assert changes[BUILT] == builds - 1 + sum(others.values())


def likely(answer: dict) -> list[dict[str, float]]:
    """Log-probabilities of the likeliest tokens at each place of an answer."""
    return [{t["token"]: t["logprob"] for t in step["top_logprobs"]} for step in answer["completion_probabilities"]]


def answers(start_server, model: Path, prompt: list[int] | str, *options: str, pads: tuple[str, ...]) -> list[dict]:
    """The same greedy answer under each padding."""
    found = []
    for pad in pads:
        with start_server("-np", "1", *options, "--kv-pad", pad, model=model) as server:
            found.append(server.complete(prompt, n_predict=12, n_probs=10, ignore_eos=True))
    return found


def furthest(one: dict, other: dict) -> float:
    pairs = zip(likely(one), likely(other), strict=True)
    return max(abs(a[token] - b[token]) for a, b in pairs for token in a.keys() & b.keys())


@pytest.mark.parametrize("model_name", ["starter_model", "gemma_model"])
@pytest.mark.parametrize(
    "cache", [("-fa", "on"), ("-fa", "off"), ("-fa", "on", "-ctk", "q8_0", "-ctv", "tbq4_0")], ids=" ".join
)
def test_real_models_answer_alike_under_any_padding(start_server, request, model_name, cache):
    model = request.getfixturevalue(model_name)
    prompt = "The mill stood by the river, and every day the miller counted his sacks. " * 18
    upstream, *padded = answers(start_server, model, prompt, "-c", "4096", *cache, pads=("256", "1024", "4096"))
    for answer in padded:
        assert answer["content"] == upstream["content"]
        assert furthest(upstream, answer) <= TOLERANCE


TOLERANCE = 1e-4
"""In log-probability: masked cells weigh exactly nothing, but a sum over more cells may be split elsewhere."""


def test_a_growing_padding_answers_as_upstream_does_at_depth(start_server):
    for depth in (4200, 9000):
        options = ("-c", "16384", "-fa", "on", *LONG)
        upstream, grown = answers(start_server, TINY, text_of(depth), *options, pads=("256", "auto"))
        assert grown["content"] == upstream["content"]
        assert furthest(upstream, grown) <= TOLERANCE


@pytest.mark.parametrize("pool", ["--kv-unified", "--no-kv-unified"])
def test_slots_side_by_side_do_not_disturb_each_other(start_server, pool):
    text = "One sack of rye, two sacks of wheat, three sacks of "
    contents = []
    for pad in ("256", "1024"):
        with start_server("-c", "4096", "-np", "2", pool, "-fa", "on", "--kv-pad", pad) as server:
            both = [text * 12, text * 40]
            alone = [server.complete(prompt, n_predict=8, ignore_eos=True)["content"] for prompt in both]
            # Two prompts of one request are computed together, in two slots.
            body = {"prompt": both, "n_predict": 8, "temperature": 0.0, "ignore_eos": True, "cache_prompt": False}
            together = server.http.post("/completion", json=body).json()
            contents.append(([one["content"] for one in together], alone))
    assert contents[0] == contents[1]
    assert contents[1][0] == contents[1][1]


def test_a_saved_slot_goes_on_under_another_padding(start_server, tmp_path):
    prompt = "A saved state knows cells and positions, never how many of them a graph spanned. " * 6
    kept: list[str] = []
    for pad, action in (("auto", "save"), ("4096", "restore"), ("256", "restore")):
        options = ("-c", "4096", "-np", "1", "--slot-save-path", str(tmp_path), "--kv-pad", pad)
        with start_server(*options) as server:
            if action == "save":
                server.complete(prompt, n_predict=1, cache_prompt=True)
            done = server.http.post(f"/slots/0?action={action}", json={"filename": "slot.bin"}).raise_for_status()
            assert done.json()["n_saved" if action == "save" else "n_restored"] > 50
            answer = server.complete(prompt, n_predict=12, ignore_eos=True, cache_prompt=True)
            assert answer["timings"]["cache_n"] > 50
            kept.append(answer["content"])
    assert kept[0] == kept[1] == kept[2]


def test_a_rejected_draft_at_a_boundary_does_not_build_back_and_forth(start_server):
    options = ("-c", "4096", "-np", "1", "-fa", "on", "--spec-type", "draft-mtp", *LONG)
    shrank = {}
    for pad in ("256", "512"):
        with start_server(*options, "--kv-pad", pad, model=TINY) as server:
            server.complete(text_of(500), n_predict=40, ignore_eos=True)
            shrank[pad] = server.metrics()[reason("kv_shrank")]
            assert server.metrics()["llamacpp:spec_decode_num_draft_tokens_total"] > 0
    assert shrank["512"] == 0


@pytest.mark.parametrize(
    ("asked", "told", "got"), [(None, 256, 256), ("256", 256, 256), ("auto", "auto", "auto"), ("4096", 4096, 1024)]
)
def test_props_says_what_was_asked_and_what_is_in_effect(start_server, asked, told, got):
    options = ("--kv-pad", asked) if asked else ()
    with start_server("-c", "1024", "-np", "1", *options, model=TINY) as server:
        facts = server.http.get("/props").json()["kvarn"]
    # A step larger than the cache is the cache.
    assert (facts["kv_pad_asked"], facts["kv_pad"]) == (told, got)


@pytest.mark.parametrize("value", ["300", "0", "-256", "65536", "99999999999", "much", ""])
def test_an_impossible_padding_is_refused_in_a_sentence(engine_dir, value):
    program = engine_dir / ("llama-server.exe" if sys.platform == "win32" else "llama-server")
    done = subprocess.run(
        [program, "-m", TINY, "--kv-pad", value], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode != 0
    assert "--kv-pad takes auto or a multiple of 256 from 256 to 32768" in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["test-kvarn-kv-pad", "test-kvarn-cuda-graph"])
def test_the_arithmetic_and_the_counting_hold_without_a_model(engine_dir, name):
    program = engine_dir / (f"{name}.exe" if sys.platform == "win32" else name)
    done = subprocess.run([program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout[-3000:]
