"""The Try it tab through its widgets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QLabel

from fakes.awkward_chat import KEY, TEXT, AwkwardChat
from kvarn.domain.launch.engine_status import EnginePhase, EngineStatus
from kvarn.domain.launch.launch_plan import LaunchPlan, LaunchSettings
from kvarn.domain.live.chat_request import ChatTurn
from kvarn.domain.settings import ThemeChoice
from kvarn.services.clock import SystemClock
from kvarn.services.launch.supervisor import Supervisor
from kvarn.services.live.trial_chat import TrialChat
from kvarn.viewmodels.launch.engine_vm import EngineVm
from kvarn.viewmodels.live.trial_vm import TrialVm
from kvarn.views.live.transcript import Transcript
from kvarn.views.live.trial_card import TrialCard

TRAPS = (
    "<smirk> waffles <b>bold?</b> a < b && c > d",
    "#include <stdio.h>",
    "&lt;not an entity&gt; &amp;",
    "<script>alert(1)</script>",
    "%s %d {0} {name}",
    'a,b;c\td"e"\nnew line',
    "模型 é é 🌾",
    "```\nunclosed fence",
    "w" * 20_000,
)


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
def card(themed, engine: EngineVm) -> Iterator[TrialCard]:
    vm = TrialVm(TrialChat(clock=SystemClock(), api_key=lambda: KEY), engine, api_key=lambda: KEY)
    card = TrialCard(vm)
    card.resize(800, 400)
    card.show()
    yield card
    card.close()
    card.deleteLater()
    vm.close()


@pytest.fixture
def transcript(themed) -> Iterator[Transcript]:
    transcript = Transcript()
    transcript.resize(400, 150)
    transcript.show()
    yield transcript
    transcript.close()
    transcript.deleteLater()


def serve(engine: EngineVm, server: AwkwardChat, manner: str) -> None:
    """From now on an engine is served that answers in this manner."""
    server.manner = manner
    settings = LaunchSettings(port=server.port)
    plan = LaunchPlan(model_path=Path("/m.gguf"), model_title="m", mmproj=None, alias="m", settings=settings)
    engine.status = EngineStatus(phase=EnginePhase.READY, plan=plan)
    engine.changed.emit()


def write(qtbot, card: TrialCard, text: str) -> None:
    card.prompt.setPlainText(text)
    qtbot.keyClick(card.prompt, Qt.Key.Key_Return)


def converse(qtbot, card: TrialCard, text: str) -> None:
    write(qtbot, card, text)
    qtbot.waitUntil(lambda: not card._vm.is_answering, timeout=60_000)


def test_without_an_engine_it_says_launch_first_and_offers_the_button(qtbot, card: TrialCard) -> None:
    assert card.empty.isVisible()
    assert not card.prompt.isVisible()
    card.set_can_launch(True)
    with qtbot.waitSignal(card.launch_wanted):
        qtbot.mouseClick(card.empty._button, Qt.MouseButton.LeftButton)
    card.set_can_launch(False)
    assert not card.empty._button.isVisible()


def test_a_word_typed_is_answered_and_told_in_figures(
    qtbot, card: TrialCard, engine: EngineVm, server: AwkwardChat
) -> None:
    serve(engine, server, "good")
    assert not card.send_button.isEnabled()
    qtbot.keyClicks(card.prompt, "What becomes of corn?")
    assert card.send_button.isEnabled()
    qtbot.mouseClick(card.send_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not card._vm.is_answering, timeout=60_000)
    assert card.transcript.toPlainText() == f"You\nWhat becomes of corn?\n\nModel\n{TEXT}"
    assert "prompt 40 tokens (10 cached)" in card.figures.text()
    assert "decode 50.0 tok/s" in card.figures.text()
    card.copy_button.click()
    assert QGuiApplication.clipboard().text() == TEXT
    assert not card.curl.isVisible()
    card.curl_button.click()
    assert card.curl.isVisible()
    card.copy_curl.click()
    assert QGuiApplication.clipboard().text() == card._vm.curl
    assert not any(KEY in label.text() for label in card.findChildren(QLabel))


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap[:12])
def test_text_is_shown_letter_for_letter(transcript: Transcript, trap: str) -> None:
    transcript.show_turns([ChatTurn("user", trap)])
    for end in range(0, len(trap), max(1, len(trap) // 7)):
        transcript.show_turns([ChatTurn("user", trap), ChatTurn("assistant", trap[:end])])
    transcript.show_turns([ChatTurn("user", trap), ChatTurn("assistant", trap)])
    assert transcript.toPlainText() == f"You\n{trap}\n\nModel\n{trap}"


def test_shift_enter_begins_a_line_and_a_pasted_text_is_not_cut(
    qtbot, card: TrialCard, engine: EngineVm, server: AwkwardChat
) -> None:
    serve(engine, server, "good")
    one_line = card.prompt.height()
    qtbot.keyClicks(card.prompt, "one")
    qtbot.keyClick(card.prompt, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClicks(card.prompt, "two")
    assert card.prompt.height() > one_line
    QGuiApplication.clipboard().setText("\n" + "corn " * 20_000)
    card.prompt.paste()
    assert card.prompt.height() < 6 * one_line
    qtbot.keyClick(card.prompt, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: not card._vm.is_answering, timeout=60_000)
    assert server.bodies[-1]["messages"][0]["content"] == "one\ntwo\n" + "corn " * 20_000


def test_a_question_that_is_too_long_comes_back_with_both_counts_and_a_way_out(
    qtbot, card: TrialCard, engine: EngineVm, server: AwkwardChat
) -> None:
    serve(engine, server, "too_long")
    write(qtbot, card, "Too long")
    card.prompt.setPlainText("next thought")
    qtbot.waitUntil(lambda: not card._vm.is_answering, timeout=60_000)
    assert card.prompt.toPlainText() == "Too long\nnext thought"
    assert "needs 6,031 tokens, a conversation has 1,024" in card.problem.text()
    with qtbot.waitSignal(card._vm.context_wanted) as wanted:
        card.context_button.click()
    assert wanted.args == [7168]


def test_stop_is_there_while_it_answers_and_keeps_the_words(
    qtbot, card: TrialCard, engine: EngineVm, server: AwkwardChat
) -> None:
    serve(engine, server, "stall")
    write(qtbot, card, "Talk")
    qtbot.waitUntil(lambda: card.transcript.toPlainText().endswith("Korn blir"), timeout=60_000)
    assert not card.send_button.isVisible()
    write(qtbot, card, "unsent")
    assert card.prompt.toPlainText() == "unsent"
    qtbot.mouseClick(card.stop_button, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(card.send_button.isVisible, timeout=60_000)
    assert card.transcript.toPlainText().endswith("Korn blir")


def test_when_the_engine_ends_the_conversation_stays_readable(
    qtbot, card: TrialCard, engine: EngineVm, server: AwkwardChat
) -> None:
    serve(engine, server, "good")
    converse(qtbot, card, "Hello")
    engine.status = EngineStatus(phase=EnginePhase.STOPPED)
    engine.changed.emit()
    assert card.transcript.toPlainText().endswith(TEXT)
    assert not card.prompt.isEnabled()
    card.clear_button.click()
    assert card.empty.isVisible()


def test_the_end_is_followed_only_while_it_is_in_sight(transcript: Transcript) -> None:
    def show(lines: int) -> None:
        transcript.show_turns([ChatTurn("user", "q"), ChatTurn("assistant", "line\n" * lines)])

    bar = transcript.verticalScrollBar()
    show(100)
    assert bar.value() == bar.maximum() > 0
    bar.setValue(3)
    show(200)
    assert bar.value() == 3
    bar.setValue(bar.maximum())
    show(300)
    assert bar.value() == bar.maximum()
    transcript.resize(400, 90)
    QGuiApplication.processEvents()
    assert bar.value() == bar.maximum()


def test_growing_text_leaves_what_stands_and_what_is_selected_alone(transcript: Transcript) -> None:
    transcript.show_turns([ChatTurn("user", "question"), ChatTurn("assistant", "first words")])
    cursor = transcript.textCursor()
    cursor.setPosition(4)
    cursor.setPosition(12, cursor.MoveMode.KeepAnchor)
    transcript.setTextCursor(cursor)
    revision = transcript.document().findBlock(0).revision()
    transcript.show_turns([ChatTurn("user", "question"), ChatTurn("assistant", "first words and more\nand more")])
    assert transcript.textCursor().selectedText() == "question"
    assert transcript.document().findBlock(0).revision() == revision


def test_thoughts_stand_before_the_answer_and_another_theme_keeps_the_text(transcript: Transcript, themed) -> None:
    steps = [("They", ""), ("They ask.", ""), ("They ask.", "Korn"), ("They ask.", "Korn blir mjöl")]
    for reasoning, text in steps:
        transcript.show_turns([ChatTurn("user", "q"), ChatTurn("assistant", text, reasoning)])
    wanted = "You\nq\n\nModel\nThey ask.\n\nKorn blir mjöl"
    assert transcript.toPlainText() == wanted
    themed.choose(ThemeChoice.DARK)
    assert transcript.toPlainText() == wanted
    transcript.show_turns([])
    assert transcript.toPlainText() == ""
