"""Answers over real sockets, from servers that behave and others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from fakes.awkward_chat import ALIKE, KEY, TEXT, AwkwardChat
from kvarn.domain.errors import SettingsError
from kvarn.domain.live.chat_problem import ChatTrouble
from kvarn.domain.live.chat_request import ChatRequest, ChatTurn
from kvarn.domain.live.chat_stream import AnswerFigures
from kvarn.services.clock import SystemClock
from kvarn.services.live.trial_chat import TrialAnswer, TrialChat
from patience import HANG_S, eventually

QUESTION = (ChatTurn("user", "What becomes of corn?"),)
FIGURES = AnswerFigures(
    prompt_tokens=40, cached_tokens=10, generated_tokens=5, prefill_tok_per_s=500.0, decode_tok_per_s=50.0
)


@pytest.fixture(scope="module")
def server() -> Iterator[AwkwardChat]:
    with AwkwardChat() as server:
        yield server


@pytest.fixture
def chat() -> Iterator[TrialChat]:
    chat = TrialChat(clock=SystemClock())
    yield chat
    chat.close()


def begin(chat: TrialChat, server: AwkwardChat, manner: str) -> None:
    server.manner = manner
    chat.ask(ChatRequest(server.base_url, QUESTION))


def ask(chat: TrialChat, server: AwkwardChat, manner: str) -> TrialAnswer:
    begin(chat, server, manner)
    return ended(chat)


def ended(chat: TrialChat, seconds: float = HANG_S) -> TrialAnswer:
    end = time.monotonic() + seconds
    while (answer := chat.take()) is None or answer.is_running:
        assert time.monotonic() < end, "the answer does not end"
        time.sleep(0.005)
    return answer


def wait_for_text(chat: TrialChat, text: str) -> None:
    eventually(lambda: chat.take().text == text)


@pytest.mark.parametrize("manner", [m.__name__ for m in ALIKE])
def test_every_legal_framing_gives_the_same_words_and_counts(chat: TrialChat, server: AwkwardChat, manner: str) -> None:
    answer = ask(chat, server, manner)
    assert answer.problem is None
    assert (answer.text, answer.finish, answer.figures) == (TEXT, "stop", FIGURES)
    assert answer.ttft_ms is not None
    assert answer.reasoning == ("They ask about corn." if manner == "thinking" else "")


def test_one_token_has_no_decode_speed(chat: TrialChat, server: AwkwardChat) -> None:
    answer = ask(chat, server, "one_token")
    assert (answer.text, answer.figures.generated_tokens, answer.figures.decode_tok_per_s) == ("Ja", 1, None)


def test_the_request_asks_for_a_stream_with_counts_and_a_bounded_answer(chat: TrialChat, server: AwkwardChat) -> None:
    ask(chat, server, "good")
    body = server.bodies[-1]
    assert body["messages"] == [{"role": "user", "content": "What becomes of corn?"}]
    assert body["stream"] is True
    assert body["stream_options"] == {"include_usage": True}
    assert body["max_tokens"] > 0


@pytest.mark.parametrize(
    ("manner", "kind", "words", "text"),
    [
        ("cut", ChatTrouble.LOST, "was lost before the answer ended", "Korn blir mjöl"),
        ("error_inside", ChatTrouble.REFUSED, "context <b>shift</b> is off", "Korn blir mjöl"),
        ("nonsense", ChatTrouble.UNREADABLE, "no chat completion stream", "Korn"),
        ("too_long", ChatTrouble.TOO_LONG, "needs 6,031 tokens, a conversation has 1,024", ""),
        ("keyed", ChatTrouble.WRONG_KEY, "wrong key", ""),
        ("web_page", ChatTrouble.UNREADABLE, "no event stream", ""),
        ("bad_gateway", ChatTrouble.REFUSED, "<h1>no</h1>", ""),
    ],
)
def test_trouble_is_a_sentence_and_keeps_the_words_so_far(
    chat: TrialChat, server: AwkwardChat, manner: str, kind: ChatTrouble, words: str, text: str
) -> None:
    answer = ask(chat, server, manner)
    assert answer.problem is not None
    assert answer.problem.kind is kind
    assert words in answer.problem.message
    assert answer.text == text


def test_the_key_goes_along(server: AwkwardChat) -> None:
    chat = TrialChat(clock=SystemClock(), api_key=lambda: KEY)
    assert ask(chat, server, "keyed").text == TEXT
    chat.close()


def test_an_unusable_key_is_a_wrong_key_and_not_a_crash(server: AwkwardChat) -> None:
    def broken() -> str | None:
        raise SettingsError("The key file cannot be read.")

    chat = TrialChat(clock=SystemClock(), api_key=broken)
    problem = ask(chat, server, "good").problem
    assert problem is not None
    assert problem.kind is ChatTrouble.WRONG_KEY
    chat.close()


def test_nobody_there_is_said_so(chat: TrialChat) -> None:
    chat.ask(ChatRequest("http://127.0.0.1:9", QUESTION))
    problem = ended(chat).problem
    assert problem is not None
    assert problem.message == "The engine cannot be reached."


@pytest.mark.parametrize("manner", ["stall", "silent"])
def test_cancel_hangs_up_at_once_before_and_in_the_answer(chat: TrialChat, server: AwkwardChat, manner: str) -> None:
    server.left.clear()
    before = len(server.bodies)
    begin(chat, server, manner)
    while len(server.bodies) == before:
        time.sleep(0.005)
    if manner == "stall":
        wait_for_text(chat, "Korn blir")
    began = time.monotonic()
    chat.cancel()
    answer = ended(chat)
    assert time.monotonic() - began < 10, "woken, for the server says nothing that would"
    assert answer.was_cancelled
    assert answer.problem is None
    assert answer.text == ("Korn blir" if manner == "stall" else "")
    assert server.left.wait(HANG_S)


def test_closing_in_mid_answer_leaves_no_thread() -> None:
    # A server of its own: one that lives on would still be accepting, one by one, those who have left.
    with AwkwardChat() as server:
        chat = TrialChat(clock=SystemClock())
        for _ in range(20):
            begin(chat, server, "stall")
        chat.close(HANG_S)
        assert not [t for t in threading.enumerate() if t.name == "kvarn-trial"]


def test_news_is_told_once_until_it_is_taken_and_the_end_always(chat: TrialChat, server: AwkwardChat) -> None:
    told: list[bool] = []
    unsubscribe = chat.subscribe(lambda _news: told.append(chat._runs[-1]._is_running))
    begin(chat, server, "flood")
    while not told or told[-1]:
        time.sleep(0.005)
    unsubscribe()
    assert told == [True, False]
    assert chat.take().text.endswith(" 2999")
