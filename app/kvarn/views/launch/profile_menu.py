"""Profiles of the chosen model, in one menu: use, save, delete, import, export."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtWidgets import QFileDialog, QInputDialog, QMenu, QToolButton, QWidget

from kvarn.viewmodels.launch.profiles_vm import ProfilesVm
from kvarn.views.widgets.labels import button_text, one_line

_FILES = "Kvarn profile (*.json)"


class ProfileMenu(QToolButton):
    """The button shows the profile the form equals, if any."""

    def __init__(self, vm: ProfilesVm, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._vm = vm
        self.setProperty("role", "quiet")
        self.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self.setAccessibleName("Profiles")
        menu = QMenu(self)
        menu.aboutToShow.connect(self._fill)
        self.setMenu(menu)
        vm.changed.connect(self.refresh)
        self.refresh()

    def refresh(self) -> None:
        """Name the profile in use."""
        current = one_line(self._vm.current)
        self.setText(button_text(current if len(current) <= 20 else current[:19] + "…") or "Profiles")

    def _fill(self) -> None:
        menu = self.menu()
        menu.clear()
        if not self._vm.profiles:
            menu.addAction("No profiles for this model yet").setEnabled(False)
        for name in self._vm.profiles:
            action = menu.addAction(button_text(one_line(name)))
            action.setCheckable(True)
            action.setChecked(name == self._vm.current)
            action.triggered.connect(lambda _on, name=name: self._vm.use(name))
        menu.addSeparator()
        menu.addAction("Save as…").triggered.connect(self._save)
        menu.addAction("Import…").triggered.connect(self._import)
        for title, act in (("Export", self._export), ("Delete", self._vm.delete)):
            part = menu.addMenu(title)
            part.setEnabled(bool(self._vm.profiles))
            for name in self._vm.profiles:
                part.addAction(button_text(one_line(name))).triggered.connect(lambda _on, n=name, act=act: act(n))

    def _save(self) -> None:
        name, taken = QInputDialog.getText(self, "Save profile", "Name", text=self._vm.current)
        if taken and name.strip():
            self._vm.save(name)

    def _import(self) -> None:
        path, _kind = QFileDialog.getOpenFileName(self, "Import a profile", "", _FILES)
        if path:
            self._vm.import_from(Path(path))

    def _export(self, name: str) -> None:
        safe = "".join(c if c.isalnum() or c in " -_." else "_" for c in name).strip(" .") or "profile"
        path, _kind = QFileDialog.getSaveFileName(self, "Export a profile", f"{safe}.json", _FILES)
        if path:
            self._vm.export_to(name, Path(path))
