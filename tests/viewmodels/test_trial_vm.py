"""One conversation: what is said, what comes back to its writer, how often the window hears of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.awkward_chat import TEXT, AwkwardChat
from kvarn.domain.launch.engine_status import EnginePhase, EngineStatus
from kvarn.domain.launch.launch_plan import LaunchPlan, LaunchSettings
from kvarn.domain.live.chat_request import ChatTurn
from kvarn.services.clock import SystemClock
from kvarn.services.launch.supervisor import Supervisor
from kvarn.services.live.trial_chat import TrialChat
from kvarn.viewmodels.launch.engine_vm import EngineVm
from kvarn.viewmodels.live.trial_vm import TrialVm


@pytest.fixture
def server() -> Iterator[AwkwardChat]:
    with AwkwardChat() as server:
        yield server


@pytest.fixture
def engine(qapp) -> Iterator[EngineVm]:
    vm = EngineVm(Supervisor())
    yield vm
    vm.close()


@pytest.fixture
def trial(engine: EngineVm) -> Iterator[TrialVm]:
    vm = TrialVm(TrialChat(clock=SystemClock()), engine)
    yield vm
    vm.close()


def serve(engine: EngineVm, server: AwkwardChat, manner: str) -> None:
    """From now on an engine is served that answers in this manner."""
    server.manner = manner
    settings = LaunchSettings(port=server.port)
    plan = LaunchPlan(model_path=Path("/m.gguf"), model_title="m", mmproj=None, alias="m", settings=settings)
    engine.status = EngineStatus(phase=EnginePhase.READY, plan=plan)
    engine.changed.emit()


def converse(qtbot, trial: TrialVm, text: str) -> None:
    assert trial.send(text)
    qtbot.waitUntil(lambda: not trial.is_answering, timeout=60_000)


def test_nothing_is_sent_while_nothing_is_served(trial: TrialVm) -> None:
    assert not trial.send("Hello?")
    assert trial.turns == ()


def test_a_conversation_goes_on_and_is_forgotten_by_clear(
    qtbot, trial: TrialVm, engine: EngineVm, server: AwkwardChat
) -> None:
    serve(engine, server, "thinking")
    assert not trial.send("  \n ")
    converse(qtbot, trial, "One")
    converse(qtbot, trial, "Two")
    assert [m["content"] for m in server.bodies[-1]["messages"]] == ["One", TEXT, "Two"]
    assert trial.turns[1] == ChatTurn("assistant", TEXT, "They ask about corn.")
    assert trial.last_answer == TEXT
    assert dict(trial.figures)["prompt"] == "40 tokens (10 cached)"
    assert dict(trial.figures)["decode"] == "50.0 tok/s"
    assert '"Two"' in trial.curl
    trial.clear()
    assert (trial.turns, trial.figures, trial.curl, trial.last_answer) == ((), (), "", "")


def test_an_answer_of_one_token_shows_a_dash_for_its_speed(
    qtbot, trial: TrialVm, engine: EngineVm, server: AwkwardChat
) -> None:
    serve(engine, server, "one_token")
    converse(qtbot, trial, "Yes?")
    assert dict(trial.figures)["decode"] == "–"
    assert dict(trial.figures)["generated"] == "1 token"


def test_a_refused_question_comes_back_and_a_larger_context_is_offered(
    qtbot, trial: TrialVm, engine: EngineVm, server: AwkwardChat
) -> None:
    serve(engine, server, "too_long")
    returned: list[str] = []
    wanted: list[int] = []
    trial.returned.connect(returned.append)
    trial.context_wanted.connect(wanted.append)
    converse(qtbot, trial, "A very long text")
    assert returned == ["A very long text"]
    assert trial.turns == ()
    assert "needs 6,031 tokens, a conversation has 1,024" in trial.problem.message
    trial.want_context()
    assert wanted == [7168]
    serve(engine, server, "good")
    converse(qtbot, trial, "Short")
    assert trial.problem is None
    assert trial.context_offer is None


def test_a_lost_connection_keeps_the_words_and_counts_nothing(
    qtbot, trial: TrialVm, engine: EngineVm, server: AwkwardChat
) -> None:
    serve(engine, server, "cut")
    converse(qtbot, trial, "Tell me")
    assert trial.last_answer == "Korn blir mjöl"
    assert "lost" in trial.problem.message
    assert dict(trial.figures)["generated"] == "–"


def test_stop_keeps_what_was_said_and_the_conversation_goes_on(
    qtbot, trial: TrialVm, engine: EngineVm, server: AwkwardChat
) -> None:
    serve(engine, server, "stall")
    assert trial.send("Talk")
    assert not trial.send("And more")
    qtbot.waitUntil(lambda: trial.last_answer == "Korn blir", timeout=60_000)
    trial.stop()
    qtbot.waitUntil(lambda: not trial.is_answering, timeout=60_000)
    assert trial.state.startswith("Stopped.")
    serve(engine, server, "good")
    converse(qtbot, trial, "Go on")
    assert [m["content"] for m in server.bodies[-1]["messages"]] == ["Talk", "Korn blir", "Go on"]


def test_clear_in_mid_answer_lets_nothing_of_it_come_back(
    qtbot, trial: TrialVm, engine: EngineVm, server: AwkwardChat
) -> None:
    serve(engine, server, "stall")
    trial.send("Talk")
    qtbot.waitUntil(lambda: bool(trial.last_answer), timeout=60_000)
    trial.clear()
    serve(engine, server, "good")
    converse(qtbot, trial, "Anew")
    assert [turn.text for turn in trial.turns] == ["Anew", TEXT]


def test_a_flood_of_pieces_reaches_the_window_ten_times_a_second_at_most(
    qtbot, trial: TrialVm, engine: EngineVm, server: AwkwardChat
) -> None:
    serve(engine, server, "flood")
    heard: list[float] = []
    trial.changed.connect(lambda: heard.append(time.monotonic()))
    began = time.monotonic()
    converse(qtbot, trial, "Count")
    assert trial.last_answer.endswith(" 2999")
    assert len(heard) <= 2 + 10 * (time.monotonic() - began) + 1


def test_the_key_is_named_in_the_command_and_never_shown(qtbot, engine: EngineVm, server: AwkwardChat) -> None:
    trial = TrialVm(TrialChat(clock=SystemClock(), api_key=lambda: "kv-secret"), engine, api_key=lambda: "kv-secret")
    serve(engine, server, "good")
    converse(qtbot, trial, "Hello")
    assert "$KVARN_API_KEY" in trial.curl
    assert "kv-secret" not in trial.curl
    trial.close()
