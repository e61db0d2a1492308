"""What can be proven about the patch series in seconds and without a compiler. One rule per function."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from . import locations, pin, work_tree
from .series import OVERLAY, PATCHES, Patch, overlay_files, read_patch, read_series

FIELDS = ("Subject", "Why", "Why-a-patch", "Hooks", "Upstream", "Tests", "Remove-when", "Rebased")
OPENING_WORDS = {
    "Why-a-patch": ("upstreamable", "build", "product"),
    "Upstream": ("not-offered", "offered", "merged", "declined"),
}
# A hook is a call site. Above this a patch must say in a `Size:` field why it cannot be one.
CHANGED_LINES = 40
HOOKS_PAGE = locations.ENGINE / "HOOKS.md"


def problems() -> list[str]:
    """Every broken rule as one sentence; empty when the series is sound."""
    listed = list(_listing_problems())
    if listed:
        return listed
    patches = [read_patch(name) for name in read_series()]
    rules: tuple[Callable[[list[Patch]], Iterator[str]], ...] = (
        _header_problems,
        _hook_problems,
        _test_problems,
        _size_problems,
        _name_problems,
        _page_problems,
    )
    # The tree is looked at last, when what is cheap to check is right.
    return [problem for rule in rules for problem in rule(patches)] or list(_tree_problems(patches))


def _listing_problems() -> Iterator[str]:
    listed = read_series()
    on_disk = {path.relative_to(PATCHES).as_posix() for path in PATCHES.rglob("*.patch")}
    for name in sorted({name for name in listed if listed.count(name) > 1}):
        yield f"series lists {name} more than once"
    for name in sorted(set(listed) - on_disk):
        yield f"series lists {name}, which does not exist"
    for name in sorted(on_disk - set(listed)):
        yield f"patches/{name} is not listed in series"


def _header_problems(patches: list[Patch]) -> Iterator[str]:
    for patch in patches:
        for field in FIELDS:
            text = patch.fields.get(field, "")
            words = OPENING_WORDS.get(field)
            if not text:
                yield f"{patch.name}: the header lacks `{field}:`"
            elif words and re.split(r"\W+(?<!-)", text, maxsplit=1)[0] not in words:
                yield f"{patch.name}: `{field}:` must open with one of {', '.join(words)}"


def _hook_problems(patches: list[Patch]) -> Iterator[str]:
    for patch in patches:
        for symbol, file in hooks(patch):
            path = OVERLAY.parent / file
            if not file.startswith("overlay/") or not path.is_file():
                yield f"{patch.name}: hook {symbol} names {file}, which is no overlay file"
            elif not re.search(rf"\b{re.escape(symbol)}\b", path.read_text(encoding="utf-8")):
                yield f"{patch.name}: {file} does not mention {symbol}"
            elif not re.search(rf"\b{re.escape(symbol)}\b", patch.diff):
                yield f"{patch.name}: the diff never uses {symbol}"


def hooks(patch: Patch) -> list[tuple[str, str]]:
    """(symbol, overlay file) pairs a patch declares; empty for `none`, which is right for a plain repair."""
    return re.findall(r"([A-Za-z_]\w*) \(([^)]+)\)", patch.fields.get("Hooks", ""))


def _test_problems(patches: list[Patch]) -> Iterator[str]:
    roots = (locations.ENGINE, locations.ENGINE.parent)
    for patch in patches:
        for path in re.split(r"[,\s]+", patch.fields.get("Tests", "")):
            if path and not any((root / path).is_file() for root in roots):
                yield f"{patch.name}: test {path} does not exist"


def _size_problems(patches: list[Patch]) -> Iterator[str]:
    for patch in patches:
        if patch.changed_lines > CHANGED_LINES and "Size" not in patch.fields:
            yield f"{patch.name}: {patch.changed_lines} changed lines (limit {CHANGED_LINES}); move code to the overlay"


def _name_problems(patches: list[Patch]) -> Iterator[str]:
    for patch in patches:
        if not re.fullmatch(r"[a-z]+/[a-z-]+\.patch", patch.name):
            yield f"{patch.name}: names are <topic>/<verb>-<object>.patch, without numbers"
    for path in overlay_files():
        if not re.match(r"(test-)?kvarn-", path.name):
            yield f"overlay/{path}: our files start with kvarn- or test-kvarn-"


def _tree_problems(patches: list[Patch]) -> Iterator[str]:
    """Shadowing, zero-fuzz application, and that export(import(series)) changes nothing."""
    here = pin.read_pin()
    names, contents = pin.read_llama_cpp(here, pin.fetch_sdist(here), [path for p in patches for path in p.touched])
    shadows = [path for path in overlay_files() if path.as_posix() in names]
    yield from (f"overlay/{path} hides upstream's own file of that name" for path in shadows)
    if shadows:
        return
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder)
        _write_files(tree, contents)
        try:
            work_tree.make(tree, here, patches)
        except pin.EngineBuildError as trouble:
            yield str(trouble)
            return
        for exported, patch in zip(work_tree.export(tree, here), patches, strict=True):
            if exported != patch:
                yield f"{patch.name}: exporting it again gives a different file; run `tools/patches.py export`"


def _write_files(tree: Path, contents: dict[str, bytes]) -> None:
    for path, content in contents.items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_bytes(content)


def hooks_page(patches: list[Patch]) -> str:
    """HOOKS.md: every upstream file we touch, by which patch, calling what."""
    lines = [
        "# Hooks",
        "",
        "Generated by `tools/patches.py list`; `check` fails when it is stale.",
        "Read these upstream files, and no others, when the pin moves.",
        "",
        "| upstream file | patch | lines | calls |",
        "|---|---|--:|---|",
    ]
    rows = [(file, patch) for patch in patches for file in patch.touched]
    for file, patch in sorted(rows, key=lambda row: (row[0], row[1].name)):
        calls = ", ".join(f"`{symbol}`" for symbol, _ in hooks(patch)) or "–"
        lines.append(f"| {file} | {patch.name.removesuffix('.patch')} | {patch.changed_lines} | {calls} |")
    lines += ["", "| patch | what is true with it | upstream |", "|---|---|---|"]
    lines += [
        f"| {patch.name.removesuffix('.patch')} | {patch.subject} | {patch.fields.get('Upstream', '')} |"
        for patch in patches
    ]
    return "\n".join(lines) + "\n"


def _page_problems(patches: list[Patch]) -> Iterator[str]:
    current = HOOKS_PAGE.read_text(encoding="utf-8") if HOOKS_PAGE.exists() else ""
    if current != hooks_page(patches):
        yield "HOOKS.md is stale: run `tools/patches.py list`"
