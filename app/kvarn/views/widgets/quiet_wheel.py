"""Scrolling past a control must not change it."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QWidget


class _WheelGuard(QObject):
    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Let the wheel through to the page unless the control has the keyboard."""
        if event.type() is QEvent.Type.Wheel and isinstance(watched, QWidget) and not watched.hasFocus():
            event.ignore()
            return True
        return False


def quiet_wheel(control: QWidget) -> QWidget:
    """Make a combo box, spin box or slider heed the wheel only while it has the focus. Returns it."""
    control.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    control.installEventFilter(_WheelGuard(control))
    return control
