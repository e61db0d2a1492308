"""Pick one of many models: a combo box whose list can be searched and says why an entry is greyed."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QModelIndex, QObject, QPersistentModelIndex, QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QComboBox,
    QFrame,
    QLineEdit,
    QListView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from kvarn.domain.library.model_entry import ModelEntry
from kvarn.viewmodels.library.entry_text import box_text, summary_text
from kvarn.viewmodels.library.model_table import ENTRY_ROLE, ModelTable
from kvarn.views.theme import XS, S, sized_font, theme
from kvarn.views.widgets.labels import PlainLabel, one_line
from kvarn.views.widgets.quiet_wheel import quiet_wheel

_ROWS_SHOWN = 8
_OPENERS = {Qt.Key.Key_Down, Qt.Key.Key_Up, Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space, Qt.Key.Key_F4}


class ModelPicker(QComboBox):
    """`chosen` carries a model id: an object, since Qt's strings cannot hold every file name."""

    chosen = Signal(object)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.setMinimumContentsLength(8)
        self.addItem("")
        self.popup = ModelPopup(self)
        self.popup.chosen.connect(self.chosen)
        quiet_wheel(self)

    def show_models(self, entries: tuple[ModelEntry, ...], chosen: ModelEntry | None) -> None:
        """Offer these models; the closed box shows the chosen one."""
        self.popup.table.set_entries(entries)
        self.popup.current_id = chosen.id if chosen else ""
        self.setItemText(0, box_text(chosen) if chosen else "Choose a model")

    def showPopup(self) -> None:
        """Open our own list instead of the plain one."""
        self.popup.open_below(self)

    def hidePopup(self) -> None:
        """Close the list."""
        self.popup.hide()
        super().hidePopup()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """The usual keys open the list; a letter opens it with the search begun."""
        if event.key() in _OPENERS:
            self.showPopup()
        elif event.text().isprintable() and event.text().strip():
            self.showPopup()
            self.popup.search.setText(event.text())
        else:
            super().keyPressEvent(event)


class ModelPopup(QWidget):
    """Search field over a list of two-line entries."""

    chosen = Signal(object)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.current_id = ""
        self.table = ModelTable(self)
        self.search = QLineEdit()
        self.search.setPlaceholderText("Search models")
        self.search.setAccessibleName("Search models")
        self.search.setClearButtonEnabled(True)
        self.list = QListView()
        self.list.setModel(self.table)
        self.list.setItemDelegate(_TwoLines(self.list))
        self.list.setUniformItemSizes(True)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setAccessibleName("Models")
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.reason = PlainLabel("", "warn", wrap=True)
        self.search.textChanged.connect(self._on_search)
        self.search.installEventFilter(self)
        self.list.clicked.connect(lambda _index: self._take())
        self.list.selectionModel().currentChanged.connect(lambda _new, _old: self._explain())
        # A frame directly under a combo box gets the combo's own style, hence one more inside.
        sheet = QFrame()
        sheet.setProperty("role", "popup")
        self._outer = QVBoxLayout(self)
        self._outer.setContentsMargins(0, 0, 0, 0)
        self._outer.addWidget(sheet)
        layout = QVBoxLayout(sheet)
        layout.setContentsMargins(S, S, S, S)
        layout.setSpacing(XS)
        for widget in (self.search, self.list, self.reason):
            layout.addWidget(widget)

    def open_below(self, anchor: QWidget) -> None:
        """Show the list under its box, as wide as the screen comfortably allows."""
        self.search.clear()
        row_height = self.list.sizeHintForRow(0) if self.table.rowCount() else 40
        self.list.setFixedHeight(row_height * max(2, min(_ROWS_SHOWN, self.table.rowCount())) + 4)
        self.setFixedWidth(max(anchor.width(), self.fontMetrics().averageCharWidth() * 56))
        self._select(self.table.row_of(self.current_id) or 0)
        place = anchor.mapToGlobal(QPoint(0, anchor.height() + 2))
        screen = anchor.screen().availableGeometry()
        place.setX(max(screen.left(), min(place.x(), screen.right() - self.width())))
        place.setY(max(screen.top(), min(place.y(), screen.bottom() - self.height())))
        self.move(place)
        self.show()
        self.search.setFocus()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Arrow keys move in the list while the search field keeps the keyboard; Enter takes the entry."""
        if watched is self.search and isinstance(event, QKeyEvent) and event.type() is QEvent.Type.KeyPress:
            steps = {
                Qt.Key.Key_Down: 1,
                Qt.Key.Key_Up: -1,
                Qt.Key.Key_PageDown: _ROWS_SHOWN,
                Qt.Key.Key_PageUp: -_ROWS_SHOWN,
            }
            key = Qt.Key(event.key())
            if key in steps:
                self._select(self.list.currentIndex().row() + steps[key])
                return True
            if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
                self._take()
                return True
        return super().eventFilter(watched, event)

    def _on_search(self, text: str) -> None:
        self.table.set_filter(text)
        self._select(0)

    def _select(self, row: int) -> None:
        last = self.table.rowCount() - 1
        self.list.setCurrentIndex(self.table.index(max(0, min(row, last)), 0))
        self._explain()

    def _take(self) -> None:
        entry = self.table.entry_at(self.list.currentIndex().row())
        if entry is not None and entry.is_servable:
            self.hide()
            self.chosen.emit(entry.id)

    def _explain(self) -> None:
        entry = self.table.entry_at(self.list.currentIndex().row())
        unusable = entry is not None and not entry.is_servable
        self.reason.setText(summary_text(entry) if entry is not None and unusable else "No model matches.")
        self.reason.setVisible(unusable or not self.table.rowCount())
        self.resize(self.width(), self._outer.heightForWidth(self.width()))


class _TwoLines(QStyledItemDelegate):
    """Title above, facts or the reason beneath."""

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Draw one entry."""
        entry: ModelEntry = index.data(ENTRY_ROLE)
        blank = QStyleOptionViewItem(option)
        self.initStyleOption(blank, index)
        blank.text = ""
        option.widget.style().drawControl(option.widget.style().ControlElement.CE_ItemViewItem, blank, painter)
        colours = theme().palette
        painter.save()
        lines = QRect(option.rect).adjusted(S, XS, -S, -XS)
        for text, ink, font, place in (
            (one_line(entry.title), colours.ink if entry.is_servable else colours.mute, option.font, lines.top()),
            (summary_text(entry), colours.mute, sized_font(0.9), lines.center().y()),
        ):
            painter.setFont(font)
            painter.setPen(QColor(ink))
            room = QRect(lines.left(), place, lines.width(), lines.height() // 2)
            shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, room.width())
            painter.drawText(room, int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter), shown)
        painter.restore()

    def sizeHint(self, option: QStyleOptionViewItem, _index: QModelIndex | QPersistentModelIndex) -> QSize:
        """Two lines and some air."""
        return QSize(200, option.fontMetrics.height() * 2 + 2 * S)
