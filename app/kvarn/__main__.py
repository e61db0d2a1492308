"""`kvarn` opens the console; `kvarn COMMAND` runs a command. Qt is only imported for the window."""

from __future__ import annotations

import os
import sys

NO_DISPLAY = "Without a window, `kvarn serve starter` serves the same models from the terminal."


def main() -> None:
    """Choose the front end by whether a command was given."""
    if len(sys.argv) > 1:
        from kvarn import cli

        cli.run()
    else:
        _open_window()


def _open_window() -> None:
    from kvarn.services.display import display_problem

    if problem := display_problem(os.environ):
        sys.stderr.write(f"kvarn: {problem} {NO_DISPLAY}\n")
        raise SystemExit(1)
    from kvarn import main as window

    raise SystemExit(window.run())


if __name__ == "__main__":
    main()
