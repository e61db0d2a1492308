"""Context checkpoints of a hybrid model: the answers of an empty memory, bounded bytes, only the new part prefilled."""

from __future__ import annotations

import contextlib
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import psutil
import pytest

from hybrid_chat import (
    OPTIONS,
    STATE_BYTES,
    TINY_HYBRID,
    ask,
    assert_same,
    checkpoints,
    text_of,
    user,
    with_answer,
)

pytestmark = pytest.mark.engine


@pytest.mark.parametrize("name", ["test-kvarn-host-copy", "test-kvarn-checkpoint-policy"])
def test_the_test_programs_agree(engine_dir: Path, name: str):
    program = engine_dir / (f"{name}.exe" if sys.platform == "win32" else name)
    done = subprocess.run([program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout


MIB = 1 << 20
OPENING = "Remember that the code for the lamp is 4821. Tell me a story about a fox and a red key. " * 3
MTP = ("--spec-type", "draft-mtp")


@pytest.fixture(scope="module")
def cold(start_server):
    """The same model without any checkpoint and without reuse: every answer from an empty memory."""
    with start_server(*OPTIONS, "--ctx-checkpoints-mib", "0", "--cache-ram", "0", model=TINY_HYBRID) as server:
        yield lambda messages: ask(server, messages, cache_prompt=False)


@pytest.mark.parametrize("speculation", [(), MTP], ids=["plain", "draft-mtp"])
def test_turns_edits_rollbacks_and_saved_slots_give_the_answers_of_an_empty_memory(
    start_server, cold, speculation, tmp_path
):
    options = (*OPTIONS, *speculation, "--slot-save-path", str(tmp_path))
    with start_server(*options, "--ctx-checkpoints-mib", "64", model=TINY_HYBRID) as server:

        def check(messages):
            warm = ask(server, messages)
            assert_same(warm, cold(messages))
            return warm

        turns = [[user(OPENING)]]
        for text in ("What is the code for the lamp?", "Who has the key?", "Tell me more."):
            turns.append(with_answer(turns[-1], check(turns[-1]), text))
        check(turns[-1])

        edited = [*turns[2][:-1], user("Who has the blue hat?")]
        assert check(edited)["timings"]["cache_n"] >= len(OPENING)  # not from the start
        assert check(turns[1])["timings"]["cache_n"] >= len(OPENING)  # two turns taken back
        restored = checkpoints(server)["restored_total"]
        assert restored >= 2

        check([user("Something else altogether, and then back again.")])  # goes to the prompt cache and returns
        assert check(turns[3])["timings"]["cache_n"] > 0

        saved = server.http.post("/slots/0?action=save", json={"filename": "one"}).raise_for_status().json()
        server.http.post("/slots/0?action=erase").raise_for_status()
        check([user("Short.")])
        restored_slot = server.http.post("/slots/0?action=restore", json={"filename": "one"}).raise_for_status().json()
        assert restored_slot["n_restored"] == saved["n_saved"]
        again = check(with_answer(turns[3], check(turns[3]), "And then?"))
        assert again["timings"]["cache_n"] > len(OPENING)
        check([*turns[2][:-1], user("Who has the green hat?")])


@pytest.mark.parametrize("budget_mib", [64, 1])
def test_a_session_stays_within_the_budget_and_prefills_only_the_new_part(start_server, budget_mib):
    with start_server(*OPTIONS, *MTP, "--ctx-checkpoints-mib", str(budget_mib), model=TINY_HYBRID) as server:
        messages, known = [user(OPENING)], 0
        for turn in range(16):
            answer = ask(server, messages)
            timings, now = answer["timings"], checkpoints(server)
            assert now["bytes"] <= now["budget_bytes"] == budget_mib * MIB
            assert now["count"] >= 1
            assert timings["cache_n"] >= known - 8, f"turn {turn} was prefilled from {timings['cache_n']}"
            known = timings["cache_n"] + timings["prompt_n"]
            messages = with_answer(messages, answer, f"Turn {turn}: who has the key now?")
        if budget_mib == 1:
            assert now["evicted_total"] > 0
            edited = ask(server, [*messages[:-2], user("What is the code?")])
            assert edited["timings"]["prompt_n"] < known / 2


def test_a_checkpoint_is_as_large_after_three_thousand_tokens_as_after_three_hundred(start_server):
    with start_server(*OPTIONS, *MTP, "--ctx-checkpoints-mib", "64", model=TINY_HYBRID) as server:
        sizes = []
        for repeat in (1, 10):
            ask(server, [user(OPENING * repeat)], max_tokens=2)
            now = checkpoints(server)
            sizes.append(now["bytes"] / now["count"])
    assert sizes[1] == pytest.approx(sizes[0], abs=64)
    assert STATE_BYTES <= sizes[0] < STATE_BYTES + 4096


def test_without_a_budget_there_is_none_and_an_edit_costs_the_whole_prompt(start_server):
    with start_server(*OPTIONS, "--ctx-checkpoints-mib", "0", "--cache-ram", "0", model=TINY_HYBRID) as server:
        first = [user(OPENING)]
        second = with_answer(first, ask(server, first), "Who has the key?")
        ask(server, second)
        edited = ask(server, [*second[:-1], user("Who has the hat?")])
        assert edited["timings"]["cache_n"] == 0
        now = checkpoints(server)
    assert {now[name] for name in ("count", "bytes", "budget_bytes", "saved_total")} == {0}


def test_the_number_per_slot_stays_an_upper_limit(start_server):
    with start_server(*OPTIONS, "-ctxcp", "2", "--cache-ram", "0", model=TINY_HYBRID) as server:
        messages = [user(OPENING)]
        for turn in range(5):
            messages = with_answer(messages, ask(server, messages), f"Turn {turn}.")
            assert checkpoints(server)["count"] <= 2


def test_a_model_whose_cache_can_be_cut_makes_none(start_server):
    with start_server("-c", "1024", "-np", "1") as server:
        server.complete("Once upon a time", n_predict=4, cache_prompt=True)
        assert checkpoints(server)["saved_total"] == 0


def test_slots_and_prompt_cache_share_one_budget_and_one_copy(start_server):
    options = ("-c", "8192", "-np", "2", "-ub", "64", "-cms", "16", "--ctx-checkpoints-mib", "1")
    with start_server(*options, model=TINY_HYBRID) as server:
        for topic in ("fox", "key", "lamp", "hat", "map"):
            ask(server, [user(f"Tell me about the {topic}. " * 12)], max_tokens=4)
            now = checkpoints(server)
            assert now["bytes"] <= MIB
        assert now["saved_total"] > now["count"]
        before = now["restored_total"]
        back = ask(server, [user("Tell me about the fox. " * 11 + "Where is it?")], max_tokens=4)
        assert checkpoints(server)["restored_total"] + (back["timings"]["cache_n"] == 0) > before


def test_slots_erased_while_others_are_saved_leave_nothing_behind(start_server, tmp_path):
    options = ("-c", "8192", "-np", "2", "-ub", "64", "-cms", "16", "--ctx-checkpoints-mib", "1", "--cache-ram", "0")
    # Without a folder for saved slots the server offers no erasing either.
    with start_server(*options, *MTP, "--slot-save-path", str(tmp_path), model=TINY_HYBRID) as server:
        stop = threading.Event()

        def erase() -> None:
            with httpx.Client(base_url=server.url, timeout=60, trust_env=False) as http:
                while not stop.is_set():
                    for slot in (0, 1):
                        http.post(f"/slots/{slot}?action=erase")
                    time.sleep(0.02)

        def talk(seed: int) -> None:
            chance = random.Random(seed)
            for _ in range(12):
                with contextlib.suppress(httpx.TransportError):
                    pause_s = chance.random() * 0.05
                    body = {"prompt": OPENING * chance.randint(1, 3), "n_predict": 40}
                    server.hang_up_after(lambda pause_s=pause_s: time.sleep(pause_s), body)
                ask(server, [user(OPENING[: chance.randint(20, 200)])], max_tokens=4)

        threads = [threading.Thread(target=erase), *(threading.Thread(target=talk, args=(n,)) for n in range(2))]
        for thread in threads[1:]:
            thread.start()
        threads[0].start()
        for thread in threads[1:]:
            thread.join()
        stop.set()
        threads[0].join()

        assert server.process.poll() is None
        assert checkpoints(server)["saved_total"] > 20
        for slot in (0, 1):
            server.http.post(f"/slots/{slot}?action=erase").raise_for_status()
        now = checkpoints(server)
    assert (now["count"], now["bytes"]) == (0, 0)


def test_two_hundred_requests_leave_memory_and_cells_as_they_were(start_server):
    options = (
        "-c",
        "2048",
        "-np",
        "2",
        "-kvu",
        "-ub",
        "64",
        "-cms",
        "16",
        "--ctx-checkpoints-mib",
        "1",
        "--cache-ram",
        "2",
    )
    with start_server(*options, *MTP, model=TINY_HYBRID) as server:
        chance = random.Random(5)
        process, rss = psutil.Process(server.process.pid), []
        for number in range(200):
            messages = [user(f"{number % 7} {OPENING[: chance.randint(40, 250)]}")]
            answer = ask(server, messages, max_tokens=3)
            if number % 3 == 0:
                ask(server, with_answer(messages, answer, "More."), max_tokens=3)
            now = checkpoints(server)
            assert now["bytes"] <= MIB
            rss.append(process.memory_info().rss)
        assert max(rss[100:]) - max(rss[50:100]) < 4 * MIB

        # every cell is free again: a prompt that needs nearly all of them finds room
        full = ask(server, [user("x" * 1950)], max_tokens=4)
        assert text_of(full) is not None
        assert full["usage"]["prompt_tokens"] > 1950
