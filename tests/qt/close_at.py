"""Run as a program: open the console, close its window at a given moment, print the seconds that took."""

from __future__ import annotations

import sys
import time

from PySide6.QtCore import QTimer

from kvarn import main
from kvarn.domain.launch.engine_status import EnginePhase

moment, port = sys.argv[1], int(sys.argv[2])
phases = {"load": EnginePhase.LOADING, "serve": EnginePhase.READY}
closed_s: list[float] = []
consoles: list[main.Console] = []


class Watched(main.Console):
    """Looks every 50 ms whether the moment has come."""

    def show(self) -> None:
        """Open the window as usual and begin to look."""
        consoles.append(self)
        super().show()
        self._look = QTimer(self, interval=50)
        self._look.timeout.connect(self._advance)
        self._look.start()

    def _advance(self) -> None:
        if self._has_come():
            self._look.stop()
            closed_s.append(time.monotonic())
            self.window.close()
        elif self.trial.can_send:
            self.trial.send("Talk until the window closes.")
        elif self.launch.settings.port != port:
            self.launch.edit(port=port, context_tokens=512)
        elif self.launch.can_launch and not self.engine.status.is_active and moment != "scan":
            self.launch.launch()

    def _has_come(self) -> bool:
        if moment == "answer":
            return bool(self.trial.last_answer)
        if moment == "scan" and not self.library.is_scanning:
            self.library.rescan()  # the first one was over before we looked
        return moment == "scan" or self.engine.status.phase is phases.get(moment)


main.Console = Watched
code = main.run()
print(time.monotonic() - closed_s[0])
raise SystemExit(code)
