"""`kvarn` opens the console; `kvarn COMMAND` runs a command. Qt is only imported for the window."""

from __future__ import annotations

import sys


def main() -> None:
    """Choose the front end by whether a command was given."""
    if len(sys.argv) > 1:
        from kvarn import cli

        cli.run()
    else:
        from kvarn import main as window

        raise SystemExit(window.run())


if __name__ == "__main__":
    main()
