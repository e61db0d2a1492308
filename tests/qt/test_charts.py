"""Charts draw what is there, break where nothing is, cost nothing unseen, and export what they show."""

from __future__ import annotations

import csv
import io
import itertools
import sys

import numpy as np
import pytest
from PySide6.QtCore import QPoint

from hand_clock import HandClock
from kvarn.domain.live import quantities as q
from kvarn.domain.live.csv_text import csv_bytes
from kvarn.services.live.telemetry_store import TelemetryStore
from kvarn.viewmodels.live.chart_export import ChartExport
from kvarn.viewmodels.live.chart_frame import ChartFrame, CurveFrame, MemoryBand, curve, finite_runs
from kvarn.viewmodels.live.graph_vm import GraphVm, Window
from kvarn.views.live.charts.bar_plot import binned
from kvarn.views.live.charts.chart_set import decode_panel, memory_panel, rebuild_panel
from kvarn.views.live.charts.charts_card import ChartsCard
from kvarn.views.live.charts.end_labels import spread
from kvarn.views.live.charts.time_plot import nice_ceiling

pytestmark = pytest.mark.usefixtures("themed")
NAN, INF = np.nan, np.inf
AWKWARD = {
    "none": [],
    "all NaN": [NAN, NAN, NAN],
    "first NaN": [NAN, 50.0, 52.0],
    "one infinity": [50.0, INF, 52.0],
    "1e308": [50.0, 1e308, 52.0],
    "one lone point": [NAN, 50.0, NAN],
    "two equal points": [50.0, 50.0],
}


def frame_of(name: str, values: list[float]) -> ChartFrame:
    times = np.arange(len(values), dtype=float)
    return ChartFrame(span_s=60, wall_now_s=1.7e9, curves={name: curve(times, np.array(values, dtype=float), 10.0)})


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def store(clock: HandClock) -> TelemetryStore:
    store = TelemetryStore()
    for i in range(120):
        t = clock.t - 30 + i / 4
        store.append(q.DECODE_TOK_PER_S, t, 50 + i % 3)
        store.append(q.GRAPH_BUILT, t, float(i % 10 == 0))
        store.append(q.ENGINE_MAPPED_BYTES, t, 93e6)
        store.append(q.ENGINE_PRIVATE_BYTES, t, 240e6)
        store.append(q.REQUESTS_PROCESSING, t, 1.0)
    return store


@pytest.fixture
def vm(store: TelemetryStore, clock: HandClock) -> GraphVm:
    return GraphVm(store, clock=clock, wall=lambda: 1.7e9)


@pytest.fixture
def card(qtbot, vm: GraphVm) -> ChartsCard:
    card = ChartsCard(vm, ChartExport())
    qtbot.addWidget(card)
    card.resize(900, 700)
    return card


@pytest.mark.parametrize("values", AWKWARD.values(), ids=AWKWARD)
def test_awkward_samples_leave_the_rest_drawn_and_the_axis_sane(qtbot, values: list[float]) -> None:
    panel = decode_panel()
    qtbot.addWidget(panel)
    panel.resize(800, 200)
    panel.show()
    panel.show_frame(frame_of(q.DECODE_TOK_PER_S, values))
    panel.grab()
    assert 10 <= panel.plot.top <= 80
    finite = [v for v in values if np.isfinite(v) and v < 1e300]
    drawn = panel.plot._items[1].getData()[1]
    drawn = np.empty(0) if drawn is None else drawn
    assert set(drawn[np.isfinite(drawn)]) == set(finite)
    assert panel.plot._caption.isVisible() == (not finite)


@pytest.mark.parametrize("values", AWKWARD.values(), ids=AWKWARD)
def test_awkward_samples_do_not_break_bars_and_stacks(qtbot, values: list[float]) -> None:
    shown = frame_of(q.GRAPH_BUILT, values).curve(q.GRAPH_BUILT)
    bands = tuple(MemoryBand(key, key, shown, planned=key == "kv") for key in ("weights", "kv"))
    frame = ChartFrame(span_s=60, wall_now_s=1.7e9, curves={q.GRAPH_BUILT: shown}, memory=bands)
    for panel in (rebuild_panel(), memory_panel()):
        qtbot.addWidget(panel)
        panel.show()
        panel.show_frame(frame)
        panel.grab()
        panel.set_table_visible(True)
        panel.grab()


def test_a_gap_is_a_break_and_never_zero(vm: GraphVm, store: TelemetryStore, clock: HandClock) -> None:
    store.gap(q.DECODE_TOK_PER_S, clock.t - 0.2)
    store.append(q.DECODE_TOK_PER_S, clock.t - 0.1, 60.0)
    shown = vm.frame_at(clock.t).curve(q.DECODE_TOK_PER_S).values
    assert np.isnan(shown[-2])
    assert len(finite_runs(shown)) == 2
    assert np.nanmin(shown) > 0


def test_hidden_charts_draw_nothing_and_shown_ones_at_once(
    qtbot, card: ChartsCard, vm: GraphVm, store: TelemetryStore, clock: HandClock
) -> None:
    frames: list[None] = []
    vm.frame_ready.connect(lambda: frames.append(None))
    vm.tick()
    vm.set_window(Window.FIVE_MINUTES)
    assert not frames
    assert not vm.is_running
    card.show()
    assert len(frames) == 1
    vm.tick()
    assert len(frames) == 1, "nothing new, too soon"
    clock.sleep(0.5)
    store.append(q.DECODE_TOK_PER_S, clock.t, 51.0)
    vm.tick()
    assert len(frames) == 2
    card.hide()
    clock.sleep(5)
    vm.tick()
    assert not vm.is_running
    assert len(frames) == 2


@pytest.mark.parametrize(
    ("cpu_percent", "frame_cpu_s", "pause_s"),
    [(60.0, 0.010, 0.25), (100.0, 0.001, 0.25), (100.0, 0.004, 0.8), (100.0, 0.5, 3.0)],
)
def test_where_no_core_is_free_drawing_takes_half_a_percent_of_one(
    store: TelemetryStore, clock: HandClock, cpu_percent: float, frame_cpu_s: float, pause_s: float
) -> None:
    spent = [0.0]
    vm = GraphVm(store, clock=clock, wall=lambda: 1.7e9, own_cpu_s=lambda: spent[0])
    drawn: list[float] = []
    vm.frame_ready.connect(lambda: drawn.append(clock.t))
    vm.frame_ready.connect(lambda: spent.__setitem__(0, spent[0] + frame_cpu_s))
    vm.set_visible(True)
    for _ in range(400):
        clock.t += 0.05
        store.append(q.SYSTEM_CPU_PERCENT, clock.t, cpu_percent)
        store.append(q.REQUESTS_PROCESSING, clock.t, 1)
        vm.tick()
    vm.set_visible(False)
    assert np.diff(drawn[1:]).mean() == pytest.approx(pause_s, rel=0.25)


def test_pause_freezes_the_picture_but_not_the_figures(
    card: ChartsCard, vm: GraphVm, store: TelemetryStore, clock: HandClock
) -> None:
    card.show()
    card.toggle_pause()
    before = vm.frame
    clock.sleep(2)
    store.append(q.DECODE_TOK_PER_S, clock.t, 99.0)
    store.append(q.REQUESTS_PROCESSING, clock.t, 1.0)
    vm.tick()
    assert vm.frame is before
    assert vm.snapshot.decode_tok_per_s == 99.0
    card.toggle_pause()
    assert vm.frame.curve(q.DECODE_TOK_PER_S).last == 99.0


def test_the_speed_axis_only_grows(qtbot) -> None:
    panel = decode_panel()
    qtbot.addWidget(panel)
    tops = []
    for value in (20.0, 300.0, 10.0):
        panel.show_frame(frame_of(q.DECODE_TOK_PER_S, [value, value]))
        tops.append(panel.plot.top)
    assert tops == sorted(tops)
    assert tops[1] == tops[2]


def test_the_cursor_runs_through_all_charts_and_is_read_out(card: ChartsCard, vm: GraphVm) -> None:
    card.show()
    card.panels[0].plot.hovered.emit(-10.0)
    assert all(panel.plot._cursor.isVisible() for panel in card.panels)
    assert "−10 s" in card._cursor.text()
    assert card.panels[0]._readout.text().startswith("decode 5")
    card.panels[0].plot.hovered.emit(None)
    assert not any(panel.plot._cursor.isVisible() for panel in card.panels)


def test_moving_the_pointer_over_a_plot_moves_the_cursor(qtbot, card: ChartsCard) -> None:
    card.show()
    plot = card.panels[0].plot
    with qtbot.waitSignal(plot.hovered) as caught:
        qtbot.mouseMove(plot.viewport(), QPoint(plot.width() // 2, plot.height() // 2))
    assert -60 < caught.args[0] < 0


def test_every_chart_has_its_numbers_as_a_table(card: ChartsCard) -> None:
    card.show()
    for panel in card.panels[:4:2]:
        panel.set_table_visible(True)
        assert panel.table.model().rowCount() > 50
        assert panel.table.model().columnCount() == 1 + len(panel.sheet_of(card._vm.frame))


def test_csv_holds_the_window_and_no_cell_is_a_formula(tmp_path, card: ChartsCard, vm: GraphVm) -> None:
    card.show()
    path = tmp_path / "all.csv"
    export = ChartExport()
    done: list[tuple[bool, str]] = []
    export.finished.connect(lambda ok, text: done.append((ok, text)))
    export.write_csv(str(path), [(p.title, p.sheet_of(vm.frame)) for p in card.panels], vm.frame)
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert done[0][0]
    assert len(rows) == 120
    assert float(rows[-1]["decode [tok/s]"]) == 52.0
    assert float(rows[-1]["weights [bytes]"]) == 93e6
    export.write_csv(str(path / "under-a-file.csv"), [], vm.frame)
    assert not done[1][0]


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_text_that_a_spreadsheet_would_run_is_neutralised(text: str) -> None:
    rows = list(csv.reader(io.StringIO(csv_bytes(("name", "n"), [(text, -5.0)]).decode())))
    assert rows[1] == ["'" + text, "-5.0"]


def test_repainting_keeps_the_count_of_none(card: ChartsCard, vm: GraphVm) -> None:
    card.show()
    card.grab()
    before = sys.getrefcount(None)
    for _ in range(20):
        vm.redraw()
        card.grab()
    assert sys.getrefcount(None) > before - 200


def test_bars_of_one_bin_add_up_and_stand_still() -> None:
    x = np.array([-2.9, -2.8, -1.0])
    ends, sums = binned(x, np.array([1.0, 2.0, NAN]), 0.5, 100.0)
    assert sums.tolist() == [3.0]
    moved, same = binned(x - 0.2, np.array([1.0, 2.0, NAN]), 0.5, 100.2)
    assert same.tolist() == [3.0]
    assert moved[0] == pytest.approx(ends[0] - 0.2)


def test_end_labels_keep_apart_and_inside() -> None:
    placed = spread([95.0, 94.0, 93.0, 4.0], 12.0, 100.0)
    assert all(a - b >= 12 for a, b in itertools.pairwise(placed))
    assert max(placed) <= 94
    assert min(spread([5.0, 4.0, 3.0], 12.0, 100.0)) >= 6


@pytest.mark.parametrize(("value", "top"), [(0, 1), (NAN, 1), (INF, 1), (51, 80), (100, 100), (0.3, 0.4), (1204, 2000)])
def test_an_axis_ends_at_a_round_number(value: float, top: float) -> None:
    assert nice_ceiling(value) == pytest.approx(top)


def test_charts_are_reachable_by_keyboard(qtbot, card: ChartsCard) -> None:
    card.show()
    reached = {card.focusWidget()}
    for _ in range(40):
        card.focusNextChild()
        reached.add(card.focusWidget())
    buttons = {card._pause, *(panel._table_button for panel in card.panels), *(p._export_button for p in card.panels)}
    assert buttons <= reached
    assert all(w.accessibleName() or w.text() for w in buttons)


def test_nothing_is_left_of_a_curve_without_samples() -> None:
    empty = CurveFrame(np.empty(0), np.empty(0))
    assert empty.is_empty
    assert empty.last is None
    assert empty.highest is None
    assert empty.at(-1.0, 1.0) is None
