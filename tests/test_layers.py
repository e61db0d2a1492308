"""The import rules that import-linter cannot see: standard-library doors in domain, widgets in viewmodels."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "app" / "kvarn"
IMPURE = {
    "threading",
    "subprocess",
    "socket",
    "time",
    "asyncio",
    "multiprocessing",
    "os",
    "httpx",
    "psutil",
    "tempfile",
}


def imports_of(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def files_of(layer: str) -> list[Path]:
    files = sorted((PACKAGE / layer).rglob("*.py"))
    assert files, f"no files in {layer}: has it moved?"
    return files


@pytest.mark.parametrize("file", files_of("domain"), ids=lambda f: str(f.relative_to(PACKAGE)))
def test_domain_reaches_no_clock_thread_process_or_socket(file: Path):
    used = {name.split(".")[0] for name in imports_of(file)}
    assert not used & IMPURE


@pytest.mark.parametrize("file", files_of("viewmodels"), ids=lambda f: str(f.relative_to(PACKAGE)))
def test_viewmodels_use_no_widgets(file: Path):
    assert not [name for name in imports_of(file) if name.startswith(("PySide6.QtWidgets", "PySide6.QtGui.QWidget"))]


def test_names_that_say_nothing_are_not_used_for_modules():
    empty_words = {"utils", "helpers", "common", "manager", "core", "base", "misc"}
    assert not [f for f in PACKAGE.rglob("*.py") if f.stem in empty_words]
