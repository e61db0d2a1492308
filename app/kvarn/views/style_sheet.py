"""The one style sheet, written from a palette. Roles are dynamic properties: `role="primary"`, `class="card"`."""

from __future__ import annotations

from dataclasses import asdict
from string import Template
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvarn.views.theme import Palette

_SHEET = Template("""
QMainWindow, QDialog, QWidget[role="page"], QScrollArea[role="page"], QWidget[role="page-body"] { background: $ground; }
QToolTip { background: $card; color: $ink; border: 1px solid $line_strong; padding: 4px 6px; }

QFrame[role="card"] { background: $card; border: 1px solid $line; border-radius: 8px; }
QFrame[role="error-card"] { background: $card; border: 1px solid $bad; border-radius: 8px; }
QFrame[role="header"] { background: $ground; border: none; border-bottom: 1px solid $line; }
QFrame[role="footer"] { background: $ground; border: none; border-top: 1px solid $line; }
QFrame[role="rail"] { background: $ground; border: none; border-right: 1px solid $line; }
QFrame[role="hairline"] { background: $line; border: none; max-height: 1px; min-height: 1px; }

QLabel { color: $ink; background: transparent; }
QLabel[role="mute"], QLabel[role="caption"], QLabel[role="figure-unit"] { color: $mute; }
QLabel[role="chart-caption"] { color: $mute; background: $card; padding: 0 8px; }
QLabel[role="good"] { color: $good; } QLabel[role="warn"] { color: $warn; } QLabel[role="bad"] { color: $bad; }
QLabel[role="code"] { color: $mute; font-family: "JetBrains Mono", "Noto Sans Mono", "DejaVu Sans Mono", monospace; }
QLabel[role="title"] { font-weight: 600; }
QLabel[role="chip"] { background: $chip; border-radius: 9px; padding: 1px 8px; }
QLabel:disabled { color: $mute; }
QLabel[role="figure"]:disabled { color: $mute; }

QPushButton { background: $card; color: $ink; border: 1px solid $line_strong; border-radius: 6px;
    padding: 5px 12px; min-height: 18px; }
QPushButton:hover { background: $chip; }
QPushButton:pressed { background: $line; }
QPushButton:focus { border-color: $accent; }
QPushButton:disabled { color: $mute; background: $sunken; border-color: $line; }
QPushButton[role="primary"] { background: $accent; color: $on_accent; border-color: $accent; font-weight: 600; }
QPushButton[role="primary"]:hover { background: $accent_hover; border-color: $accent_hover; }
QPushButton[role="primary"]:focus { border: 2px solid $ink; padding: 4px 11px; }
QPushButton[role="primary"]:disabled { background: $chip; color: $mute; border-color: $line; }
QPushButton[role="quiet"], QToolButton[role="quiet"] { background: transparent; border: 1px solid transparent;
    color: $mute; padding: 3px 7px; border-radius: 5px; }
QToolButton[role="icon"] { background: transparent; border: 1px solid transparent; border-radius: 4px; padding: 0; }
QToolButton[role="icon"]:hover, QToolButton[role="icon"]:checked { background: $chip; }
QToolButton[role="icon"]:focus { border-color: $accent; }
QPushButton[role="quiet"]:hover, QToolButton[role="quiet"]:hover { color: $ink; background: $chip; }
QPushButton[role="quiet"]:focus, QToolButton[role="quiet"]:focus { border-color: $accent; }
QPushButton[role="quiet"]:checked, QToolButton[role="quiet"]:checked { color: $ink; background: $chip;
    font-weight: 600; }
QPushButton[role="link"] { background: transparent; border: 1px solid transparent; color: $ink; padding: 2px 2px;
    text-decoration: underline; min-height: 0; }
QPushButton[role="link"]:hover { color: $accent; }
QPushButton[role="link"]:focus { border-color: $accent; border-radius: 4px; }

QToolButton::menu-indicator { image: none; }
QToolButton[role="rail"] { background: transparent; color: $mute; border: none; border-left: 3px solid transparent;
    padding: 8px 3px 7px 0; }
QToolButton[role="rail"]:hover { color: $ink; background: $chip; }
QToolButton[role="rail"]:checked { color: $accent; border-left: 3px solid $accent; font-weight: 600; }
QToolButton[role="rail"]:focus { background: $chip; }

QComboBox, QLineEdit, QSpinBox, QDoubleSpinBox, QPlainTextEdit { background: $card; color: $ink;
    border: 1px solid $line_strong; border-radius: 6px; selection-background-color: $selection; selection-color: $ink; }
QComboBox, QLineEdit, QSpinBox, QDoubleSpinBox { padding: 4px 8px; min-height: 20px; }
QComboBox:focus, QLineEdit:focus, QSpinBox:focus, QDoubleSpinBox:focus, QPlainTextEdit:focus { border-color: $accent; }
QComboBox:disabled, QLineEdit:disabled, QSpinBox:disabled { color: $mute; background: $sunken; border-color: $line; }
QSpinBox, QDoubleSpinBox { padding: 4px 4px 4px 6px; }
QComboBox::drop-down { border: none; width: 22px; }
QComboBox::down-arrow { image: url("$icons/chevron-$scheme.svg"); width: 12px; height: 12px; }
QComboBox QAbstractItemView { background: $card; color: $ink; border: 1px solid $line_strong; padding: 3px;
    selection-background-color: $selection; selection-color: $ink; outline: none; }
QSpinBox::up-button, QSpinBox::down-button, QDoubleSpinBox::up-button, QDoubleSpinBox::down-button {
    border: none; width: 18px; background: transparent; }
QSpinBox::up-arrow, QDoubleSpinBox::up-arrow { image: url("$icons/chevron-up-$scheme.svg");
    width: 10px; height: 10px; }
QSpinBox::down-arrow, QDoubleSpinBox::down-arrow { image: url("$icons/chevron-$scheme.svg");
    width: 10px; height: 10px; }

QSlider::groove:horizontal { height: 4px; background: $line; border-radius: 2px; }
QSlider::sub-page:horizontal { background: $accent; border-radius: 2px; }
QSlider::handle:horizontal { width: 14px; height: 14px; margin: -5px 0; border-radius: 7px; background: $accent; }
QSlider::handle:horizontal:focus { background: $ink; }
QSlider::sub-page:horizontal:disabled, QSlider::handle:horizontal:disabled { background: $line_strong; }

QCheckBox, QRadioButton { color: $ink; spacing: 8px; }
QCheckBox:disabled, QRadioButton:disabled { color: $mute; }
QCheckBox::indicator { width: 15px; height: 15px; border: 1px solid $mute; border-radius: 4px; background: $card; }
QCheckBox::indicator:checked { background: $accent; border-color: $accent; image: url("$icons/check-$scheme.svg"); }
QCheckBox::indicator:focus { border: 2px solid $ink; }
QCheckBox::indicator:disabled { border-color: $line_strong; background: $sunken; }

QTableView, QTreeView, QListView { background: $card; color: $ink; border: none; gridline-color: transparent;
    alternate-background-color: $sunken; selection-background-color: $selection; selection-color: $ink; outline: none; }
QTableView::item { border-bottom: 1px solid $line; padding: 3px 8px; }
QTableView::item:selected { background: $selection; color: $ink; }
QTableView[role="narrow"]::item { padding: 3px 2px; }
QTableView[role="log"]::item { border: none; padding: 0 8px; }
QPlainTextEdit[role="prompt"] { padding: 3px 4px; }
QPlainTextEdit[role="transcript"] { border: none; background: transparent; }
QPlainTextEdit[role="sunken"] { background: $sunken; color: $mute; border-color: $line; }
QTabBar { background: transparent; }
QTabBar::tab { color: $mute; background: transparent; border: none; border-bottom: 2px solid transparent;
    padding: 3px 2px 4px 2px; margin-right: 16px; font-weight: 600; }
QTabBar::tab:hover { color: $ink; }
QTabBar::tab:selected { color: $ink; border-bottom-color: $accent; }
QTabBar::tab:focus { color: $accent; }
QFrame[role="popup"] { background: $card; border: 1px solid $line_strong; }
QListView[role="field"] { border: 1px solid $line_strong; border-radius: 6px; padding: 3px; }
QListView[role="field"]:focus { border-color: $accent; }
QHeaderView { background: $card; border: none; }
QHeaderView::section { background: $card; color: $mute; border: none; border-bottom: 1px solid $line_strong;
    padding: 4px 11px; font-weight: 400; }
QTableView[role="narrow"] QHeaderView::section { padding: 4px 5px; }
QTableCornerButton::section { background: $card; border: none; }

QScrollBar:vertical { background: transparent; width: 10px; margin: 0; }
QScrollBar:horizontal { background: transparent; height: 10px; margin: 0; }
QScrollBar::handle { background: $line_strong; border-radius: 4px; margin: 1px; }
QScrollBar::handle:vertical { min-height: 28px; } QScrollBar::handle:horizontal { min-width: 28px; }
QScrollBar::handle:hover { background: $mute; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QScrollArea { border: none; background: transparent; }
QSplitter::handle { background: transparent; }

QProgressBar { background: $line; border: none; border-radius: 3px; max-height: 6px; min-height: 6px; }
QProgressBar::chunk { background: $accent; border-radius: 3px; }
QMenu { background: $card; color: $ink; border: 1px solid $line_strong; padding: 4px; }
QMenu::item { padding: 5px 22px 5px 12px; border-radius: 4px; }
QMenu::item:selected { background: $selection; } QMenu::item:disabled { color: $mute; }
QMenu::separator { height: 1px; background: $line; margin: 4px 6px; }
QGroupBox { border: 1px solid $line; border-radius: 8px; margin-top: 10px; padding-top: 8px; }
""")


def style_sheet(palette: Palette, icons: str) -> str:
    """The whole application's style sheet; `icons` is the folder of shipped SVG files, with slashes."""
    scheme = "dark" if palette.is_dark else "light"
    return _SHEET.substitute(asdict(palette), icons=icons, scheme=scheme)
