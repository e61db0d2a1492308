"""Only the newest question is answered."""

from __future__ import annotations

import threading
import time

from kvarn.services.latest_only import LatestOnly
from patience import HANG_S


def test_of_many_quick_questions_only_the_last_is_worked_on_and_answered() -> None:
    worked: list[int] = []
    answers: list[tuple[int, int]] = []
    done = threading.Event()

    def answer(question: int, _is_stale: object) -> int:
        worked.append(question)
        return question * 2

    def on_answer(question: int, answer: int) -> None:
        answers.append((question, answer))
        done.set()

    latest = LatestOnly(answer, on_answer, settle_s=0.5)
    for number in range(50):
        latest.ask(number)

    assert done.wait(HANG_S)
    latest.close()
    assert (worked, answers) == ([49], [(49, 98)])


def test_a_question_overtaken_while_it_is_worked_on_is_told_so_and_never_answered() -> None:
    started, answers, done = threading.Event(), [], threading.Event()

    def answer(question: str, is_stale) -> str:
        if question == "slow":
            started.set()
            while not is_stale():
                time.sleep(0.005)
        return question

    def on_answer(question: str, _answer: str) -> None:
        answers.append(question)
        done.set()

    latest = LatestOnly(answer, on_answer)
    latest.ask("slow")
    assert started.wait(HANG_S)
    latest.ask("quick")
    assert done.wait(HANG_S)
    latest.close()
    assert answers == ["quick"]


def test_closing_ends_the_worker_and_answers_nothing_more() -> None:
    started, answers = threading.Event(), []

    def answer(_question: int, is_stale) -> None:
        started.set()
        while not is_stale():
            time.sleep(0.005)

    latest = LatestOnly(answer, lambda question, _answer: answers.append(question))
    latest.ask(1)
    assert started.wait(HANG_S)
    latest.close(HANG_S)
    latest.ask(2)
    assert answers == []
    assert not [t for t in threading.enumerate() if t.name == "latest-only"]


def test_a_question_that_breaks_the_worker_costs_its_own_answer_only(caplog) -> None:
    asked, answers, done = threading.Event(), [], threading.Event()

    def answer(question: str, _is_stale: object) -> str:
        if question == "broken":
            asked.set()
            raise RuntimeError("no")
        return question

    def on_answer(_question: str, answer: str) -> None:
        answers.append(answer)
        done.set()

    latest = LatestOnly(answer, on_answer)
    latest.ask("broken")
    assert asked.wait(HANG_S)
    latest.ask("sound")
    assert done.wait(HANG_S)
    latest.close()
    assert answers == ["sound"]
    assert "met a defect" in caplog.text
    caplog.clear()
