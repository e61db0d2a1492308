"""A combo box over `Choice` values: colour swatch, detail at the right, unusable entries greyed with the reason."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QIcon, QPainter, QPalette, QPixmap, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QComboBox, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from kvarn.domain.colours import cache_type_colour
from kvarn.viewmodels.launch.choices import Choice
from kvarn.views.theme import S, theme
from kvarn.views.widgets.labels import plain_tip
from kvarn.views.widgets.quiet_wheel import quiet_wheel

_DETAIL_ROLE = Qt.ItemDataRole.UserRole + 1
_SWATCH = 12
_WIDEST_POPUP = 520


class ChoiceCombo(QComboBox):
    """`chosen` fires only when a person chooses; showing a value is silent."""

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._choices: tuple[Choice, ...] = ()
        self._items = QStandardItemModel(self)
        self.setModel(self._items)
        self.setItemDelegate(_TwoSided(self))
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(6)
        self.setIconSize(QSize(_SWATCH, _SWATCH))
        self.activated.connect(lambda row: self.chosen.emit(self._choices[row].value))
        theme().changed.connect(self._rebuild)
        quiet_wheel(self)

    def show_choices(self, choices: tuple[Choice, ...], value: str) -> None:
        """Offer these entries with `value` chosen."""
        if choices != self._choices:
            self._choices = choices
            self._rebuild()
        row = next((row for row, choice in enumerate(choices) if choice.value == value), -1)
        if row != self.currentIndex():
            self.setCurrentIndex(row)

    def showPopup(self) -> None:
        """Wide enough that a reason can be read."""
        measure = self.fontMetrics().horizontalAdvance
        widths = [measure(choice.text) + measure(choice.reason or choice.detail) for choice in self._choices]
        wanted = max(widths, default=0) + _SWATCH + 8 * S
        self.view().setMinimumWidth(max(self.width(), min(wanted, _WIDEST_POPUP)))
        super().showPopup()

    def _rebuild(self) -> None:
        row = self.currentIndex()
        self._items.clear()
        for choice in self._choices:
            self._items.appendRow(_item(choice))
        self.setCurrentIndex(row)


def _item(choice: Choice) -> QStandardItem:
    item = QStandardItem(choice.text)
    item.setEditable(False)
    item.setEnabled(not choice.reason)
    item.setData(choice.reason or choice.detail, _DETAIL_ROLE)
    item.setData(
        ": ".join(filter(None, (choice.text, choice.reason or choice.detail))), Qt.ItemDataRole.AccessibleTextRole
    )
    if choice.reason:
        item.setToolTip(plain_tip(choice.reason))
    if choice.kv_type:
        item.setIcon(swatch_icon(theme().palette.line_colour(cache_type_colour(choice.kv_type))))
    return item


def swatch_icon(colour: str) -> QIcon:
    """A small square, sharp at 100 to 400 %."""
    icon = QIcon()
    for scale in (1, 2, 4):
        pixmap = QPixmap(_SWATCH * scale, _SWATCH * scale)
        pixmap.fill(QColor(colour))
        icon.addPixmap(pixmap)
        icon.addPixmap(pixmap, QIcon.Mode.Disabled)
    return icon


class _TwoSided(QStyledItemDelegate):
    """The entry's text at the left, its detail or reason at the right in the quiet colour."""

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Draw both ends."""
        super().paint(painter, option, index)
        detail = index.data(_DETAIL_ROLE)
        if not detail:
            return
        taken = option.fontMetrics.horizontalAdvance(index.data() or "") + _SWATCH + 4 * S
        room = QRect(option.rect).adjusted(taken, 0, -S, 0)
        painter.save()
        painter.setPen(QColor(theme().palette.mute))
        shown = option.fontMetrics.elidedText(detail, Qt.TextElideMode.ElideRight, room.width())
        painter.drawText(room, int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter), shown)
        painter.restore()

    def initStyleOption(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> None:
        """Greyed where it cannot be chosen: the style sheet's own ink knows no disabled entries."""
        super().initStyleOption(option, index)
        if not index.flags() & Qt.ItemFlag.ItemIsEnabled:
            for group in (QPalette.ColorGroup.Active, QPalette.ColorGroup.Inactive, QPalette.ColorGroup.Disabled):
                option.palette.setColor(group, QPalette.ColorRole.Text, QColor(theme().palette.mute))

    def sizeHint(self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex) -> QSize:
        """A little air between the lines."""
        size = super().sizeHint(option, index)
        return QSize(size.width(), max(size.height(), option.fontMetrics.height() + S))
