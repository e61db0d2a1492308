"""GET /live: true figures at any moment of a heavy run, in the form the contract gives."""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path

import fastjsonschema
import httpx
import pytest

from live_watcher import watching
from patience import eventually, noise_aside

pytestmark = pytest.mark.engine

PROTOCOL = Path(__file__).resolve().parents[2] / "engine" / "protocol"
OVERLAY = PROTOCOL.parent / "overlay"
UBATCH = 64
LONG_PROMPT = [1000 + n % 500 for n in range(1500)]

is_valid = fastjsonschema.compile(json.loads((PROTOCOL / "live.schema.json").read_text()))


@pytest.fixture(scope="module")
def server(start_server, tmp_path_factory):
    folder = tmp_path_factory.mktemp("slots")
    options = ("-c", "4096", "-np", "2", "-b", "2048", "-ub", str(UBATCH), "--slot-save-path", str(folder))
    with start_server(*options, "--no-kv-unified", "-fa", "on", "-ctk", "q8_0") as running:
        running.complete(n_predict=1)
        yield running


@pytest.fixture(scope="module")
def heavy_run(server):
    """One long prompt, read in one decode call, and an answer, watched all the time."""
    with watching(server.url) as watcher:
        begun = time.perf_counter()
        answer = server.complete(LONG_PROMPT, n_predict=96, ignore_eos=True, id_slot=0)
        took_s = time.perf_counter() - begun
        eventually(lambda: watcher.phases()[-1:] == ["idle"])
    return watcher, answer, took_s


def test_the_answers_fit_the_schema_at_every_moment(server, heavy_run):
    watcher, _, _ = heavy_run
    for answer in [server.live(), *watcher.answers]:
        is_valid(answer)


def test_the_captured_samples_fit_the_schema():
    samples = sorted((PROTOCOL / "live.samples").glob("*.json"))
    assert len(samples) >= 3
    for sample in samples:
        is_valid(json.loads(sample.read_text()))


def test_the_answer_never_waits_for_the_decode(heavy_run):
    watcher, _, took_s = heavy_run
    assert len(watcher.took_s) > 20
    # Milliseconds for a run of many seconds, on any machine.
    assert statistics.median(watcher.took_s) < took_s / 200
    # One decode call reads the whole prompt: a reader that waited for it once would have had few answers before its
    # end. (The longest wait may be a pause of the machine.)
    assert sum(slot["phase"] == "prefill" for slot in watcher.slots()) > 10


def test_the_phases_come_in_order(heavy_run):
    watcher, _, _ = heavy_run
    phases = watcher.phases()
    assert [p for p in phases if p in {"prefill", "decode"}] == ["prefill", "decode"]
    assert phases[-1] == "idle"


def test_a_long_prompt_is_seen_advancing_within_its_one_decode_call(heavy_run):
    watcher, answer, _ = heavy_run
    reading = [slot["prompt"]["processed"] for slot in watcher.slots() if slot["phase"] == "prefill"]
    assert answer["timings"]["prompt_n"] == len(LONG_PROMPT)
    assert reading == sorted(reading)
    inside = {n for n in reading if 0 < n < len(LONG_PROMPT)}
    assert len(inside) >= 4
    assert all(n % UBATCH == 0 for n in inside)


def test_numbers_and_times_only_grow(heavy_run):
    answers = heavy_run[0].answers
    for before, after in itertools.pairwise(answers):
        assert after["seq"] > before["seq"]
        assert after["published"] >= before["published"]
        assert after["now_ns"] > before["now_ns"] >= before["published_ns"]
        for part in ("tokens", "steps"):
            assert all(after[part][k] >= v for k, v in before[part].items() if k != "last")


def test_builds_and_reuses_are_the_ubatches(heavy_run):
    graphs = heavy_run[0].answers[-1]["graphs"]
    assert graphs["built"] + graphs["reused"] == graphs["ubatches"]
    assert sum(graphs["reasons"].values()) == graphs["built"]


def test_the_totals_are_the_requests_own_timings(server):
    runs = []

    def compare_times() -> None:
        runs.append(one_answer(server, "tokens", prompt_tokens=100, n_predict=20))
        before, after, timings = runs[-1]
        assert after["prompt_ms_total"] - before["prompt_ms_total"] == pytest.approx(timings["prompt_ms"], rel=0.3)

    noise_aside(compare_times)
    for before, after, timings in runs:
        assert after["prompt_total"] - before["prompt_total"] == timings["prompt_n"] == 100
        assert after["generated_total"] - before["generated_total"] == timings["predicted_n"] == 20
        # The same two readings of the clock, rounded.
        assert after["generated_ms_total"] - before["generated_ms_total"] == pytest.approx(
            timings["predicted_ms"], abs=0.01
        )


def one_answer(server, part: str, prompt_tokens: int, n_predict: int) -> tuple[dict, dict, dict]:
    """That part of /live before and after an answer, and the answer's own timings."""
    before = server.live()[part]
    answer = server.complete([1000] * prompt_tokens, n_predict=n_predict, ignore_eos=True)
    return before, until(server, lambda live: live["requests"]["processing"] == 0)[part], answer["timings"]


def test_tokens_and_cells_grow_while_the_answer_comes(heavy_run):
    watcher, _, _ = heavy_run
    decoding = [answer for answer in watcher.answers if answer["slots"][0]["phase"] == "decode"]
    assert decoding[-1]["slots"][0]["decoded"] > decoding[0]["slots"][0]["decoded"]
    assert decoding[-1]["slots"][0]["decode_tok_per_s"] > 0
    for answer in decoding:
        slots, cache = answer["slots"], answer["kv"]["caches"][0]
        # The newest token is sampled, but not in the cache yet.
        assert 0 <= sum(slot["held"] for slot in slots) - cache["cells_used"] <= 1


def test_the_caches_are_those_of_props(server):
    facts, caches = server.http.get("/props").json()["kvarn"], server.live()["kv"]["caches"]
    assert "live" in facts["features"]
    assert [(c["context"], c["kind"]) for c in caches] == [("target", "full")]
    assert (caches[0]["type_k"], caches[0]["type_v"]) == (facts["kv_k"], facts["kv_v"])
    assert (caches[0]["k_bytes"], caches[0]["v_bytes"]) == (facts["kv_k_bytes"], facts["kv_v_bytes"])
    assert caches[0]["cells"] == facts["context_tokens"]


def test_memory_has_weights_cells_and_compute_by_device(server):
    live = server.live()
    buffers, facts = live["memory"]["buffers"], server.http.get("/props").json()["kvarn"]
    assert sum(b["context_bytes"] for b in buffers) >= facts["kv_bytes"]
    assert sum(b["model_bytes"] for b in buffers) > 50_000_000
    assert sum(b["compute_bytes"] for b in buffers) > 0
    assert {b["device"] for b in buffers} <= {d["name"] for d in live["memory"]["devices"]} | {None}


def test_the_parts_of_the_steps_add_up(server):
    runs = []

    def compare_times() -> None:
        runs.append(one_answer(server, "steps", prompt_tokens=20, n_predict=30))
        before, after, timings = runs[-1]
        spent_ms = sum(after[k] - before[k] for k in ("decode_ms_total", "sampling_ms_total", "other_ms_total"))
        assert spent_ms == pytest.approx(timings["prompt_ms"] + timings["predicted_ms"], rel=0.3)

    noise_aside(compare_times)
    for before, after, _ in runs:
        assert after["count"] - before["count"] == 30  # the prompt, then one for each token but the first
        assert after["last"]["tokens"] == 1


def test_metrics_say_the_same_as_live(server):
    live, metrics = until(server, lambda live: live["requests"]["processing"] == 0), server.metrics()
    assert metrics["kvarn:prompt_tokens_total"] == live["tokens"]["prompt_total"]
    assert metrics["kvarn:generated_tokens_total"] == live["tokens"]["generated_total"]
    assert metrics["kvarn:ubatches_total"] == live["graphs"]["ubatches"]
    assert metrics["kvarn:steps_total"] == live["steps"]["count"]
    assert metrics['kvarn:step_seconds_total{part="decode"}'] == pytest.approx(live["steps"]["decode_ms_total"] / 1000)
    cache = live["kv"]["caches"][0]
    assert metrics['kvarn:kv_cells_used{context="target",kind="full"}'] == cache["cells_used"]
    assert server.metrics()["kvarn:prompt_tokens_total"] == metrics["kvarn:prompt_tokens_total"]


def test_saving_a_slot_is_a_phase_of_its_own(server):
    server.complete(LONG_PROMPT, n_predict=1, id_slot=0, cache_prompt=True)
    with watching(server.url, every_s=0.0) as watcher:

        def is_seen() -> bool:
            for action in ("save", "restore"):
                server.http.post(f"/slots/0?action={action}", json={"filename": "state"}).raise_for_status()
            return bool({"slot_save", "slot_restore"} & set(watcher.phases()))

        eventually(is_seen)
        eventually(lambda: watcher.phases()[-1] == "idle")


def test_a_sleeping_engine_is_not_woken(start_server):
    with start_server("-c", "512", "-np", "1", "--sleep-idle-seconds", "1") as server:
        live = until(server, lambda live: live["state"] == "sleeping")
        assert live["kv"]["caches"] == live["memory"]["buffers"] == []
        time.sleep(0.3)
        assert server.live()["state"] == "sleeping"
        asking = threading.Thread(target=server.complete, kwargs={"n_predict": 100, "ignore_eos": True})
        asking.start()
        until(server, lambda live: live["state"] == "ready")
        asking.join()


def test_the_key_is_needed_when_one_is_set(start_server):
    with start_server("-c", "512", "-np", "1", env={"LLAMA_API_KEY": "secret"}) as server:
        for path in ("/live", "/live/stream"):
            assert server.http.get(path).status_code == 401
        assert server.http.get("/live", headers={"Authorization": "Bearer secret"}).status_code == 200


def test_a_foreign_page_is_refused(start_server):
    with start_server("-c", "512", "-np", "1", "--cors-origins", "localhost") as server:
        assert server.http.get("/live", headers={"Origin": "https://example.org"}).status_code == 403
        assert httpx.get(server.url + "/live", headers={"Host": "evil.example"}, trust_env=False).status_code == 403


@pytest.mark.parametrize("flags", [(), ("-fsanitize=thread", "-g")])
def test_the_cell_between_writer_and_readers_is_never_torn_or_raced(tmp_path, flags):
    source, program = OVERLAY / "tests" / "test-kvarn-live-cell.cpp", tmp_path / "cell"
    command = ["c++", "-std=c++17", "-O1", *flags, "-pthread", f"-I{OVERLAY / 'tools' / 'server'}", str(source)]
    built = subprocess.run([*command, "-o", str(program)], capture_output=True, text=True, check=False)
    if built.returncode != 0 and "tsan" in built.stderr:
        pytest.skip("this compiler has no thread sanitizer")
    assert built.returncode == 0, built.stderr
    run = subprocess.run([str(program), "20000"], capture_output=True, text=True, check=False, timeout=250)
    if "unexpected memory mapping" in run.stderr:
        pytest.skip("this kernel lays memory out as the thread sanitizer cannot use it")
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_engine_writes_what_the_samples_hold(engine_dir):
    program = engine_dir / ("test-kvarn-live-json.exe" if sys.platform == "win32" else "test-kvarn-live-json")
    samples = sorted(str(path) for path in (PROTOCOL / "live.samples").glob("*.json"))
    run = subprocess.run([str(program), *samples], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout


def until(server, condition, seconds: float = 100):
    """The first /live for which the condition holds."""
    end = time.monotonic() + seconds
    while not condition(live := server.live()):
        assert time.monotonic() < end, live
        time.sleep(0.02)
    return live
