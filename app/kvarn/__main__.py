"""`kvarn` opens the console; `kvarn COMMAND` runs a command. Qt is only imported for the window."""

from __future__ import annotations

import io
import os
import sys

_INTERRUPTED = 130
"""What a shell expects of a program that Ctrl-C ended."""

NO_DISPLAY = "Without a window, `kvarn serve starter` serves the same models from the terminal."


def main() -> None:
    """Choose the front end by whether a command was given."""
    _mend_streams()
    try:
        if len(sys.argv) > 1:
            from kvarn import cli

            cli.run()
        else:
            _open_window()
    except KeyboardInterrupt:
        # Before anything runs that would have to be stopped: importing takes a second on a slow disk.
        raise SystemExit(_INTERRUPTED) from None


def _mend_streams() -> None:
    """A stream closed by whoever started us takes everything; a character it cannot show ends no command."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # It gets the closed descriptor's number, which a file opened later would have got.
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _open_window() -> None:
    from kvarn.services.display import display_problem

    if problem := display_problem(os.environ):
        sys.stderr.write(f"kvarn: {problem} {NO_DISPLAY}\n")
        raise SystemExit(1)
    from kvarn import main as window

    raise SystemExit(window.run())


if __name__ == "__main__":
    main()
