"""Colours, fonts and spacing, named once. `Theme.apply` dresses the application and follows the system's scheme."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QByteArray, QObject, QRectF, Qt, Signal
from PySide6.QtGui import QColor, QFont, QGuiApplication, QIcon, QPainter, QPalette, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication

from kvarn.domain.colours import readable
from kvarn.domain.settings import ThemeChoice
from kvarn.views.style_sheet import style_sheet

XS, S, M, L, XL = 4, 8, 12, 16, 24
"""The spacing scale in device-independent pixels; layouts use nothing else."""

_ICON_SIZES = (16, 24, 32, 48)


@dataclass(frozen=True)
class Palette:
    """One scheme, `#RRGGBB` each. Text roles keep 4.5:1 on every ground they are used on."""

    is_dark: bool
    ground: str
    card: str
    sunken: str
    line: str
    line_strong: str
    ink: str
    mute: str
    accent: str
    accent_hover: str
    on_accent: str
    good: str
    warn: str
    bad: str
    chip: str
    selection: str

    def line_colour(self, base: str) -> str:
        """A meaning-carrying colour, fit for thin graphics on a card (3:1)."""
        return readable(base, self.card, 3.0)

    def label_colour(self, base: str) -> str:
        """The same hue, fit for text on a card (4.5:1)."""
        return readable(base, self.card, 4.5)


LIGHT = Palette(
    is_dark=False,
    ground="#F6F5F2",
    card="#FFFFFF",
    sunken="#FAF9F6",
    line="#E2DFD8",
    line_strong="#C9C5BB",
    ink="#1F2328",
    mute="#636870",
    accent="#A55D08",
    accent_hover="#925207",
    on_accent="#FFFFFF",
    good="#0B7450",
    warn="#8A5A00",
    bad="#B3261E",
    chip="#EFECE5",
    selection="#F3E4CF",
)
DARK = Palette(
    is_dark=True,
    ground="#15171A",
    card="#1D2024",
    sunken="#191B1F",
    line="#2D3238",
    line_strong="#454B53",
    ink="#E7E8EA",
    mute="#9AA1A9",
    accent="#E8A33D",
    accent_hover="#F2B457",
    on_accent="#1B1303",
    good="#3FBF8F",
    warn="#E0B050",
    bad="#FF7B72",
    chip="#262A30",
    selection="#3B3020",
)


class Theme(QObject):
    """The scheme in force. One per application; `theme()` finds it."""

    changed = Signal()

    def __init__(self, icons: Path) -> None:
        super().__init__()
        self.palette = LIGHT
        self._icons = icons
        self._app: QApplication | None = None
        self._choice: ThemeChoice | None = None
        self._is_dressed = False

    def apply(self, app: QApplication, choice: ThemeChoice = ThemeChoice.SYSTEM) -> None:
        """Make this the application's theme, now and whenever the system switches; `dress` completes it."""
        global _theme
        _theme = self
        self._app = app
        app.setStyle("Fusion")
        app.setFont(body_font())
        app.setWindowIcon(QIcon(str(self._icons / "kvarn.svg")))
        app.styleHints().colorSchemeChanged.connect(self._on_scheme_changed)
        self._choice = None
        self.choose(choice)

    def dress(self) -> None:
        """Put the style sheet in force.

        Call it once the window is built: under a sheet every widget is styled anew each time it is laid into another,
        which takes a third of the window's start.
        """
        self._is_dressed = True
        self._wear_sheet()

    def choose(self, choice: ThemeChoice) -> None:
        """Light, dark, or whatever the system says from now on."""
        if choice is self._choice:
            return
        self._choice = choice
        schemes = {ThemeChoice.LIGHT: Qt.ColorScheme.Light, ThemeChoice.DARK: Qt.ColorScheme.Dark}
        QGuiApplication.styleHints().setColorScheme(schemes.get(choice, Qt.ColorScheme.Unknown))
        forced = {ThemeChoice.LIGHT: LIGHT, ThemeChoice.DARK: DARK}
        self._use(forced.get(choice) or _system_palette())

    def icon(self, name: str, colour: str | None = None) -> QIcon:
        """`resources/icons/NAME.svg` with its `currentColor` replaced, sharp at every scale."""
        svg = (self._icons / f"{name}.svg").read_bytes()
        renderer = QSvgRenderer(QByteArray(svg.replace(b"currentColor", (colour or self.palette.ink).encode())))
        icon = QIcon()
        for size in _ICON_SIZES:
            icon.addPixmap(_drawn(renderer, size))
        return icon

    def _on_scheme_changed(self, _scheme: Qt.ColorScheme) -> None:
        if self._choice is ThemeChoice.SYSTEM:
            self._use(_system_palette())

    def _use(self, palette: Palette) -> None:
        if palette is self.palette and self._is_dressed:
            return
        self.palette = palette
        if self._app is not None:
            self._app.setPalette(_qt_palette(palette))
        if self._is_dressed:
            self._wear_sheet()
        self.changed.emit()

    def _wear_sheet(self) -> None:
        if self._app is not None:
            self._app.setStyleSheet(style_sheet(self.palette, self._icons.as_posix()))


_theme: Theme | None = None


def theme() -> Theme:
    """The theme in force; a plain light one before any was applied."""
    global _theme
    if _theme is None:
        _theme = Theme(Path())
    return _theme


def body_font() -> QFont:
    """The system's own sans at 10 pt, figures of equal width so that live numbers do not dance."""
    font = QFont(QGuiApplication.font())
    font.setFamilies(["Inter", "Noto Sans", "Segoe UI", "SF Pro Text", "Cantarell", "DejaVu Sans"])
    font.setPointSizeF(9.75)
    font.setFeature(QFont.Tag("tnum"), 1)
    return font


def sized_font(scale: float, *, bold: bool = False) -> QFont:
    """The body font times `scale`."""
    font = body_font()
    font.setPointSizeF(font.pointSizeF() * scale)
    font.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
    return font


def mono_font() -> QFont:
    """For logs, commands and addresses."""
    font = QFont()
    font.setFamilies(["JetBrains Mono", "Cascadia Mono", "Noto Sans Mono", "DejaVu Sans Mono", "monospace"])
    font.setStyleHint(QFont.StyleHint.Monospace)
    font.setPointSizeF(9.25)
    return font


def _system_palette() -> Palette:
    return DARK if QGuiApplication.styleHints().colorScheme() is Qt.ColorScheme.Dark else LIGHT


def _drawn(renderer: QSvgRenderer, size: int) -> QPixmap:
    pixmap = QPixmap(size, size)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    renderer.render(painter, QRectF(0, 0, size, size))
    painter.end()
    return pixmap


def _qt_palette(p: Palette) -> QPalette:
    """For what a style sheet does not reach: native dialogs, selections, disabled text."""
    role, out = QPalette.ColorRole, QPalette()
    pairs = {
        role.Window: p.ground,
        role.WindowText: p.ink,
        role.Base: p.card,
        role.AlternateBase: p.sunken,
        role.Text: p.ink,
        role.Button: p.card,
        role.ButtonText: p.ink,
        role.ToolTipBase: p.card,
        role.ToolTipText: p.ink,
        role.Highlight: p.selection,
        role.HighlightedText: p.ink,
        role.PlaceholderText: p.mute,
        role.Link: p.accent,
        role.Mid: p.line,
        role.Dark: p.line_strong,
        role.Accent: p.accent,
    }
    for which, colour in pairs.items():
        out.setColor(which, QColor(colour))
    for which in (role.WindowText, role.Text, role.ButtonText):
        out.setColor(QPalette.ColorGroup.Disabled, which, QColor(p.mute))
    return out
