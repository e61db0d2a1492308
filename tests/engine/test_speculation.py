"""Speculation: the same greedy text as without it, a depth that follows the text, graphs that stay, honest counters."""

from __future__ import annotations

import itertools
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.engine

OVERLAY = Path(__file__).resolve().parents[2] / "engine" / "overlay"
HYBRID = Path(__file__).resolve().parents[1] / "data" / "tiny-hybrid-mtp" / "tiny-hybrid-mtp.gguf"
MTP = ("-c", "4096", "-np", "1", "--spec-type", "draft-mtp", "--spec-draft-n-max", "4")
COPY = ("-c", "2048", "-np", "1", "--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "4")
STORIES = (
    "Once upon a time there was a sailor named Ella who lived near the river. There she found a",
    'One cold morning Paul went to the station. In the grass he saw a black kite. "Is this your',
    "Q: Tell me a story about David.\nA: One day David found a brown box in the valley. David wa",
    "November 4. The weather was foggy. I went to the forest with David and we bought four bean",
)
TIE = 1e-3
"""Of two log probabilities: nearer than this they are as good as equal."""
LIST = "1. red apple\n2. green pear\n3. red apple\n4. green pear\n5. red apple\n6. green pear\n7. red"


def moved(before: dict[str, float], after: dict[str, float], start: str) -> float:
    """By how much all series whose name begins so have grown together."""
    return sum(value - before.get(name, 0.0) for name, value in after.items() if name.startswith(start))


def test_the_choice_of_depth_ends_at_the_best_one_on_simulated_texts(tmp_path):
    compiler = shutil.which("c++") or shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("no C++ compiler on the path")
    program = tmp_path / "spec-depth"
    sources = [OVERLAY / "tests" / "test-kvarn-spec-depth.cpp", OVERLAY / "common" / "kvarn-spec-depth.cpp"]
    subprocess.run([compiler, "-std=c++17", "-O1", *map(str, sources), "-o", str(program)], check=True)
    run = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


def test_an_ngram_drafter_is_judged_by_what_was_left_of_its_draft(engine_dir):
    program = engine_dir / ("test-kvarn-ngram-cut.exe" if sys.platform == "win32" else "test-kvarn-ngram-cut")
    run = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert run.returncode == 0, run.stdout


def until_a_tie(plain: dict[str, Any], text: str) -> int:
    """Up to where a greedy text is the plain answer's: a mere tie may end otherwise. Fails where it differs elsewhere.

    Several tokens in a batch are summed in another order than one, which moves a log probability in its last digits.
    """
    pairs = zip(plain["content"], text, strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    end = 0
    for step in plain["completion_probabilities"]:
        end += len(step["token"])
        if end > same:
            best, second = step["top_logprobs"][:2]
            assert best["logprob"] - second["logprob"] < TIE, (plain["content"], text)
            assert text[end - len(step["token"]) :].startswith(second["token"])
            break
    return same


def test_an_mtp_draft_of_any_depth_leaves_the_greedy_text_alone(start_server):
    with start_server("-c", "4096", "-np", "1", model=HYBRID) as server:
        plain = [server.complete(story, n_predict=96, ignore_eos=True, n_probs=2) for story in STORIES]
    with start_server(*MTP, "--spec-adaptive", model=HYBRID) as server:
        answers = [server.complete(story, n_predict=96, ignore_eos=True) for story in STORIES]
    same = [until_a_tie(one, other["content"]) for one, other in zip(plain, answers, strict=True)]
    assert sum(same) > 0.7 * sum(len(one["content"]) for one in plain)
    assert sum(answer["timings"]["draft_n_accepted"] for answer in answers) > 100


def test_a_copied_phrase_leaves_the_greedy_text_alone(start_server):
    found = []
    for options in (("-c", "2048", "-np", "1"), (*COPY, "--spec-adaptive"), (*COPY, "--no-spec-adaptive")):
        with start_server(*options) as server:
            answer = server.complete(LIST, n_predict=96, ignore_eos=True)
            found.append(answer["content"])
    assert found[0] == found[1] == found[2]
    # Of the fixed length: what an adaptive one drafts depends on the machine's step times.
    assert answer["timings"]["draft_n_accepted"] > 0


def test_the_same_prompt_drafts_the_same_whatever_the_slot_did_before(start_server):
    with start_server(*MTP, model=HYBRID) as server:
        counts = set()
        for between in ("", "x", STORIES[1]):
            if between:
                server.complete(between, n_predict=24, ignore_eos=True)
            timings = server.complete(STORIES[0], n_predict=64, ignore_eos=True)["timings"]
            counts.add((timings["draft_n"], timings["draft_n_accepted"]))
    assert len(counts) == 1


def test_a_restored_checkpoint_brings_its_own_row_back(start_server):
    """The prompt is cached up to a checkpoint: drafts from there must not depend on what was generated in between."""
    options = (*MTP, "--checkpoint-min-step", "16")
    with start_server(*options, model=HYBRID) as server:
        counts, cached = set(), []
        for between in ("", " a", " with a long tail of other words"):
            if between:
                server.complete(STORIES[0] + between, n_predict=24, ignore_eos=True, cache_prompt=True)
            timings = server.complete(STORIES[0], n_predict=64, ignore_eos=True, cache_prompt=True)["timings"]
            counts.add((timings["draft_n"], timings["draft_n_accepted"]))
            cached.append(timings["cache_n"])
    assert min(cached[1:]) > 0
    assert len(counts) == 1


def test_drafting_ends_where_nothing_is_ever_right(start_server):
    with start_server(*MTP, "--spec-adaptive", "--spec-synth-rates", "0,0,0,0", model=HYBRID) as server:
        server.complete(STORIES[0], n_predict=200, ignore_eos=True)
        before = server.metrics()
        server.complete(STORIES[1], n_predict=256, ignore_eos=True)
        after = server.metrics()
    # One probe in 32 steps at first, then ever fewer.
    assert moved(before, after, "kvarn:spec_drafts_total") <= 24
    assert moved(before, after, 'kvarn:spec_steps_total{draft="0"}') >= 200


def test_drafting_goes_on_where_all_is_right(start_server):
    with start_server(*MTP, "--spec-adaptive", "--spec-synth-rates", "1,1,1,1", model=HYBRID) as server:
        server.complete(STORIES[0], n_predict=200, ignore_eos=True)
        before = server.metrics()
        server.complete(STORIES[1], n_predict=256, ignore_eos=True)
        after = server.metrics()
    # All but a drafted end of text, which the synthetic mode never takes.
    assert moved(before, after, "kvarn:spec_accepted_total") >= 0.9 * moved(before, after, "kvarn:spec_drafted_total")
    assert moved(before, after, 'kvarn:spec_steps_total{draft="0"}') <= 10
    assert moved(before, after, "kvarn:spec_steps_total") <= 120


def test_a_change_of_depth_builds_no_graph(start_server):
    """Every depth has been used; from then on only the growing cache may build graphs."""
    reasons = ("output_switch", "batch_shape", "outputs", "no_previous")
    built = {}
    for switch in ("--spec-adaptive", "--no-spec-adaptive"):
        # Acceptance of one half: the depth moves all the time.
        with start_server(*MTP, switch, "--spec-synth-rates", "0.7,0.5,0.3,0.2", model=HYBRID) as server:
            server.complete(STORIES[0], n_predict=700, ignore_eos=True)
            before = server.metrics()
            server.complete(STORIES[0], n_predict=150, ignore_eos=True)
            after = server.metrics()
        built[switch] = sum(moved(before, after, f'kvarn:graph_rebuild_total{{reason="{name}"}}') for name in reasons)
    assert built["--spec-adaptive"] <= 16
    assert built["--no-spec-adaptive"] > 60


def test_the_counters_add_up_and_the_page_says_how_the_server_speculates(start_server):
    with start_server(*MTP, model=HYBRID) as server:
        timings = server.complete(STORIES[0], n_predict=64, ignore_eos=True)["timings"]
        samples = server.metrics()
        facts = server.http.get("/props").json()["kvarn"]
    assert facts["speculation"] == {"kind": "draft-mtp", "adaptive": False, "depth_max": 4}
    assert "speculation" in facts["features"]
    assert samples["kvarn:spec_drafted_total"] == timings["draft_n"]
    assert samples["kvarn:spec_accepted_total"] == timings["draft_n_accepted"]
    assert moved({}, samples, "kvarn:spec_accepted_at_total") == timings["draft_n_accepted"]
    assert samples['kvarn:spec_tried_total{position="1"}'] == samples["kvarn:spec_drafts_total"]
    assert samples['kvarn:spec_tried_total{position="2"}'] == samples['kvarn:spec_accepted_at_total{position="1"}']
    assert moved({}, samples, "kvarn:spec_step_seconds_total") > 0


def test_a_step_that_verifies_a_draft_has_its_sampling_timed(start_server):
    with start_server(*MTP, "--spec-synth-rates", "1,1,1,1", model=HYBRID) as server:
        before = server.live()["steps"]
        server.complete(STORIES[0], n_predict=64, ignore_eos=True)
        deadline = time.monotonic() + 20
        while server.live()["requests"]["processing"] > 0 and time.monotonic() < deadline:
            time.sleep(0.01)
        after = server.live()["steps"]
    # The last step verifies a draft of two.
    assert after["count"] - before["count"] >= 10
    assert after["last"]["sampling_ms"] > 0


def test_without_speculation_there_is_nothing_to_say(start_server):
    with start_server("-c", "512", "-np", "1", "--spec-adaptive") as server:
        assert not [name for name in server.metrics() if name.startswith("kvarn:spec_")]
        assert server.http.get("/props").json()["kvarn"]["speculation"] is None
