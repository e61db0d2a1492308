"""The charts of the Serve page: what each shows, in which colour, with which words."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kvarn.domain import colours
from kvarn.domain.live import quantities as q
from kvarn.domain.quantity_text import bytes_text
from kvarn.domain.time_text import rate_text
from kvarn.viewmodels.live.chart_frame import ChartFrame, MemoryBand
from kvarn.viewmodels.live.chart_sheet import Column, reading
from kvarn.views.live.charts.bar_plot import BarPlot
from kvarn.views.live.charts.chart_panel import ChartPanel
from kvarn.views.live.charts.end_labels import EndLabel
from kvarn.views.live.charts.line_plot import Line, LinePlot
from kvarn.views.live.charts.memory_plot import MEMORY_BAND_COLOURS, MemoryPlot
from kvarn.views.live.charts.time_plot import TimePlot

REBUILD_COLOUR = colours.VERMILION
CONTEXT_COLOUR = colours.GREEN
COUNT_UNIT = "count per interval"


def _series(name: str, title: str, unit: str, text: Callable[[float], str]) -> Column:
    return Column(title, unit, lambda frame: frame.curve(name), text)


def _count(value: float) -> str:
    return f"{value:,.0f}"


def _axis_count(value: float) -> str:
    return f"{value / 1000:g}k" if value >= 10_000 else f"{value:,.0f}"


def _axis_rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:g}"


def decode_panel() -> ChartPanel:
    """Generated tokens per second: the mean of two seconds, the raw steps faint behind it."""
    line = Line(q.DECODE_TOK_PER_S, "decode", colours.DECODE)
    plot = LinePlot((Line(q.DECODE_RAW_TOK_PER_S, "raw", colours.DECODE, faint=True), line), _axis_rate)
    columns = (
        _series(q.DECODE_TOK_PER_S, "decode", "tok/s", rate_text),
        _series(q.DECODE_RAW_TOK_PER_S, "unsmoothed", "tok/s", rate_text),
    )
    return _panel("Decode speed", "tok/s, all requests together", plot, columns, (line,), rate_text, 76)


def prefill_panel() -> ChartPanel:
    """Prompt tokens computed per second, on an axis of its own: it is ten to a hundred times faster."""
    line = Line(q.PREFILL_TOK_PER_S, "prefill", colours.PREFILL)
    columns = (_series(q.PREFILL_TOK_PER_S, "prefill", "tok/s", rate_text),)
    plot = LinePlot((line,), _axis_rate, least_top=100)
    return _panel("Prefill speed", "tok/s", plot, columns, (line,), rate_text, 44)


def context_panel() -> ChartPanel:
    """KV cells held by conversations; allocated is not filled."""
    line = Line(q.CONTEXT_TOKENS_USED, "used", CONTEXT_COLOUR)
    columns = (_series(q.CONTEXT_TOKENS_USED, "context used", "tokens", _count),)
    plot = LinePlot((line,), _axis_count, least_top=1000, shows_times=True)
    return _panel("Context in use", "tokens held in the KV cache", plot, columns, (line,), _count, 62)


def rebuild_panel() -> ChartPanel:
    """Graph events counted by the engine itself, never guessed from speed. Re-captures exist on CUDA only."""
    lines = (
        Line(q.CUDA_CAPTURED, "re-captures", colours.BLUE),
        Line(q.GRAPH_BUILT, "rebuilds", REBUILD_COLOUR),
    )

    def sheet(frame: ChartFrame) -> tuple[Column, ...]:
        told = [line for line in lines if line.name == q.GRAPH_BUILT or not frame.curve(line.name).is_empty]
        return tuple(_series(line.name, line.label, "count", _count) for line in told)

    def caption(frame: ChartFrame) -> str:
        is_drawn = any(not frame.curve(line.name).is_empty for line in lines)
        return "" if is_drawn else frame.captions.get(q.GRAPH_BUILT, "")

    def read(frame: ChartFrame, x_s: float | None) -> str:
        return "" if x_s is None else " · ".join(_rebuild_reasons(frame, x_s)) or "none here"

    return ChartPanel(
        "Graph rebuilds",
        COUNT_UNIT,
        BarPlot(lines),
        end_labels=lambda frame: (),
        reading=read,
        caption=caption,
        sheet=sheet,
        height=40,
    )


def memory_panel() -> ChartPanel:
    """Who holds the memory. Hatched parts are planned sizes, solid ones are measured."""
    plot = MemoryPlot()

    def labels(frame: ChartFrame) -> Sequence[EndLabel]:
        out, below = [], 0.0
        for band in frame.memory:
            amount = band.curve.last
            if amount is None:
                return ()
            if amount / plot.top > 0.004:
                colour = MEMORY_BAND_COLOURS.get(band.key, colours.NEUTRAL)
                text = f"{band.label} {'~' if band.planned else ''}{bytes_text(round(amount))}"
                out.append(EndLabel(text, colour, (below + amount / 2) / plot.top))
            below += amount
        return out

    def columns(frame: ChartFrame) -> tuple[Column, ...]:
        return tuple(_band_column(band) for band in frame.memory)

    def read(frame: ChartFrame, x_s: float | None) -> str:
        if x_s is not None:
            return reading(frame, columns(frame), x_s)
        return _memory_sentence(frame)

    return ChartPanel(
        "Memory",
        "hatched: planned size",
        plot,
        end_labels=labels,
        reading=read,
        caption=lambda frame: "" if frame.memory_is_known else frame.captions.get(q.ENGINE_RSS_BYTES, ""),
        sheet=columns,
        height=76,
    )


def _panel(
    title: str,
    unit: str,
    plot: TimePlot,
    columns: tuple[Column, ...],
    labelled: tuple[Line, ...],
    text: Callable[[float], str],
    height: int,
) -> ChartPanel:
    def labels(frame: ChartFrame) -> list[EndLabel]:
        ends = [(line, frame.curve(line.name).last) for line in labelled]
        return [EndLabel(f"{ll.label} {text(v)}", ll.colour, v / plot.top) for ll, v in ends if v is not None]

    def caption(frame: ChartFrame) -> str:
        empty = all(c.pick(frame).is_empty for c in columns)
        return frame.captions.get(labelled[0].name, "no data") if empty else ""

    return ChartPanel(
        title,
        unit,
        plot,
        end_labels=labels,
        reading=lambda frame, x_s: "" if x_s is None else reading(frame, columns, x_s),
        caption=caption,
        sheet=columns,
        height=height,
    )


def _band_column(band: MemoryBand) -> Column:
    return Column(band.label, "bytes", lambda _frame: band.curve, lambda v: bytes_text(round(v)))


def _rebuild_reasons(frame: ChartFrame, x_s: float) -> list[str]:
    reach = frame.span_s / 120
    return [mark.text for mark in frame.marks if mark.kind == "rebuild" and abs(mark.x_s - x_s) <= reach][-3:]


def _memory_sentence(frame: ChartFrame) -> str:
    ends = [band.curve.last for band in frame.memory]
    total, limit = sum(end or 0 for end in ends), frame.memory_limit_bytes
    if not ends or None in ends or not limit:
        return ""
    of = f"{bytes_text(round(total))} of {bytes_text(round(limit))} {frame.memory_limit_label}"
    share = total / limit
    return f"{of}, {share:.0%}".replace("%", " %") if share >= 0.01 else f"{of}, under 1 %"
