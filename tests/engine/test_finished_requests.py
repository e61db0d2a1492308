"""GET /kvarn/requests: the last finished requests with their timings and without their text."""

from __future__ import annotations

import threading
import time

import httpx
import pytest

from patience import HANG_S, eventually

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def server(start_server):
    with start_server("-c", "1024", "-np", "2", "--no-context-shift") as running:
        yield running


def requests_since(server, seq: int, count: int = 1) -> list[dict]:
    """Listed requests; a slot is released a moment after its client has the answer, so wait for `count` of them."""
    end = time.monotonic() + HANG_S
    while time.monotonic() < end:
        found = server.http.get("/kvarn/requests", params={"since": seq}).raise_for_status().json()["requests"]
        if len(found) >= count:
            break
    return found


def last_seq(server) -> int:
    """The newest number once every slot is idle."""
    while server.is_busy():
        time.sleep(0.05)
    return server.http.get("/kvarn/requests").json()["last_seq"]


def test_a_finished_request_is_listed_with_the_timings_its_client_got(server):
    seen = last_seq(server)
    answer = server.complete("Tell me about mills.", n_predict=12, ignore_eos=True)
    (listed,) = requests_since(server, seen)
    timings = answer["timings"]
    for name in ("cache_n", "prompt_n", "predicted_n"):
        assert listed[name] == timings[name]
    assert listed["predicted_ms"] == pytest.approx(timings["predicted_ms"], abs=0.01)
    assert listed["prompt_ms"] == pytest.approx(timings["prompt_ms"], abs=0.01)
    assert listed["n_prompt_tokens"] == timings["prompt_n"] + timings["cache_n"]
    assert listed["finish"] == "limit"
    assert listed["ttft_ms"] == pytest.approx(listed["queue_ms"] + listed["prompt_ms"])
    assert abs(listed["finished_unix_ms"] / 1000 - time.time()) < 60


def test_waiting_for_a_slot_counts_into_the_time_to_the_first_token(start_server):
    with start_server("-c", "2048", "-np", "1") as server:
        seen = last_seq(server)
        second = threading.Thread(target=server.complete, args=("Twice",), kwargs={"n_predict": 2})

        def let_another_wait() -> None:
            eventually(lambda: server.live()["requests"]["processing"] == 1)
            second.start()
            eventually(lambda: server.live()["requests"]["waiting"] == 1)
            time.sleep(0.05)

        server.hang_up_after(let_another_wait, {"prompt": "Once", "n_predict": 1900, "ignore_eos": True})
        second.join()
        waited = max(requests_since(server, seen, 2), key=lambda request: request["queue_ms"])
    assert waited["queue_ms"] > 20
    assert waited["ttft_ms"] > waited["queue_ms"]


def test_each_ending_has_its_name(server):
    seen = last_seq(server)
    server.complete("One two three four", n_predict=40, ignore_eos=True, stop=["a", "e", "i", "o", "u"])
    too_long = server.http.post("/completion", json={"prompt": list(range(1000, 3000))})
    assert too_long.status_code == 400
    stopped, refused = requests_since(server, seen, 2)
    assert stopped["finish"] == "stop_word"
    assert refused["finish"] == "too_long"
    assert "2000" in refused["error"]
    assert refused["ttft_ms"] is None
    assert refused["predicted_n"] == 0


def test_no_word_of_the_prompt_or_the_answer_is_listed(server):
    seen = last_seq(server)
    answer = server.complete("Xylophone secrets", n_predict=8)
    (listed,) = requests_since(server, seen)
    assert "Xylophone" not in str(listed)
    assert answer["content"].strip() not in str(listed)


def test_only_the_last_256_are_kept_and_numbers_never_repeat(server):
    seen = last_seq(server)
    with httpx.Client(base_url=server.url, timeout=100, trust_env=False) as client:
        for _ in range(4):
            client.post("/completion", json={"prompt": [[1000]] * 65, "n_predict": 1}).raise_for_status()
    assert last_seq(server) == seen + 260
    page = server.http.get("/kvarn/requests").json()
    numbers = [request["seq"] for request in page["requests"]]
    assert page["kept"] == 256 == len(numbers)
    assert numbers == list(range(seen + 5, seen + 261))


@pytest.mark.parametrize("since", ["-1", "x", "", "99999999999999999999"])
def test_a_senseless_number_is_refused_with_a_sentence(server, since):
    response = server.http.get("/kvarn/requests", params={"since": since})
    assert response.status_code == 400
    assert "since" in response.json()["error"]["message"]


def test_the_list_is_behind_the_key_like_every_other_page(start_server):
    with start_server("-c", "256", "-np", "1", env={"LLAMA_API_KEY": "sesame"}) as server:
        assert server.http.get("/kvarn/requests").status_code == 401
        allowed = server.http.get("/kvarn/requests", headers={"Authorization": "Bearer sesame"})
        assert allowed.status_code == 200
