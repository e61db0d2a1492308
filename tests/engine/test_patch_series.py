"""`patches.py check` accepts our series and names each way in which one can be wrong. No compiler, no network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "engine"
# The build cache of the person who runs the tests, taken before the fixtures move HOME.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
SMALL = "server/print-metrics-exactly.patch"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy of engine/ to break, with the tests its patches name."""
    shutil.copytree(ENGINE, tmp_path / "engine", ignore=shutil.ignore_patterns(".tree", "__pycache__"))
    shutil.copytree(ROOT / "tests" / "engine", tmp_path / "tests" / "engine")
    return tmp_path / "engine"


def patches(project: Path, verb: str, **env: str) -> subprocess.CompletedProcess[str]:
    if sys.platform.startswith("linux") and not list((CACHE / "kvarn" / "engine" / "sdist").glob("*.tar.gz")):
        pytest.skip("the pinned source is not in the build cache yet")
    command = [sys.executable, str(project / "tools" / "patches.py"), verb]
    told = {"XDG_CACHE_HOME": str(CACHE)} | env
    return subprocess.run(command, env=os.environ | told, capture_output=True, text=True, check=False)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def complaint(project: Path) -> str:
    done = patches(project, "check")
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def test_our_series_is_sound():
    done = patches(ENGINE, "check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_listed_patch_that_does_not_exist_is_named(project):
    (project / "patches" / SMALL).unlink()
    assert f"series lists {SMALL}, which does not exist" in complaint(project)


def test_a_patch_that_is_not_listed_is_named(project):
    edit(project / "patches" / "series", SMALL, "# " + SMALL)
    assert f"{SMALL} is not listed" in complaint(project)


def test_a_patch_listed_twice_is_named(project):
    with (project / "patches" / "series").open("a") as series:
        series.write(SMALL + "\n")
    assert "more than once" in complaint(project)


@pytest.mark.parametrize("field", ["Why", "Why-a-patch", "Hooks", "Upstream", "Tests", "Remove-when", "Rebased"])
def test_a_missing_header_field_is_named(project, field):
    edit(project / "patches" / SMALL, f"\n{field}: ", f"\nNo-{field}: ")
    assert f"lacks `{field}:`" in complaint(project)


@pytest.mark.parametrize(("field", "word"), [("Why-a-patch", "upstreamable"), ("Upstream", "not-offered")])
def test_a_reason_outside_the_allowed_words_is_named(project, field, word):
    edit(project / "patches" / SMALL, f"{field}: {word}", f"{field}: because")
    assert f"`{field}:` must open with one of" in complaint(project)


def test_a_hook_that_the_overlay_does_not_define_is_named(project):
    edit(project / "patches/server/publish-graph-counters.patch", "kvarn_metrics_text (", "kvarn_metrics_words (")
    assert "does not mention kvarn_metrics_words" in complaint(project)


def test_a_test_that_does_not_exist_is_named(project):
    edit(project / "patches" / SMALL, "Tests: tests/engine/", "Tests: tests/engine/no_")
    assert "does not exist" in complaint(project)


def test_a_stale_hooks_page_is_named(project):
    edit(project / "HOOKS.md", "| 2 |", "| 3 |")
    assert "HOOKS.md is stale" in complaint(project)


def test_an_overlay_file_may_not_hide_one_of_upstreams(project):
    # No upstream file begins with kvarn-, so the name rule would speak first; both are broken promises.
    (project / "overlay" / "src" / "llama.cpp").write_text("// ours\n")
    assert "overlay/src/llama.cpp" in complaint(project)


def test_a_large_patch_needs_a_reason(project):
    edit(project / "patches/server/abort-abandoned-prefill.patch", "\nSize: ", "\nBig: ")
    assert "move code to the overlay" in complaint(project)


def test_a_context_line_that_drifted_is_refused_not_fuzzed(project):
    edit(project / "patches" / SMALL, "\n     std::stringstream prometheus;\n", "\n     std::stringstream prom;\n")
    assert f"{SMALL} does not apply" in complaint(project)


def test_a_hunk_that_only_applies_elsewhere_is_refused(project):
    path = project / "patches" / SMALL
    moved = re.sub(r"@@ -(\d{4}),", lambda found: f"@@ -{int(found[1]) + 7},", path.read_text())
    path.write_text(moved)
    assert "exporting it again gives a different file" in complaint(project)


def test_patch_does_the_same_where_git_is_missing(project, tmp_path):
    if not shutil.which("patch"):
        pytest.skip("patch is not installed")
    script = (
        "import pathlib, sys\n"
        "from kvarn_engine import pin, series\n"
        "here, tree = pin.read_pin(), pathlib.Path(sys.argv[1])\n"
        "todo = series.read_patches()\n"
        "wanted = [path for patch in todo for path in patch.touched]\n"
        "for path, content in pin.read_llama_cpp(here, pin.fetch_sdist(here), wanted)[1].items():\n"
        "    (tree / path).parent.mkdir(parents=True, exist_ok=True)\n"
        "    (tree / path).write_bytes(content)\n"
        "for patch in todo:\n"
        "    series.apply_patch(tree, patch)\n"
    )
    only_patch = tmp_path / "bin"
    only_patch.mkdir()
    (only_patch / "patch").symlink_to(shutil.which("patch"))
    results = []
    for name, path in (("git", os.environ["PATH"]), ("patch", str(only_patch))):
        tree = tmp_path / name
        tree.mkdir()
        env = os.environ | {"PYTHONPATH": str(project / "backend"), "XDG_CACHE_HOME": str(CACHE), "PATH": path}
        subprocess.run([sys.executable, "-c", script, str(tree)], env=env, check=True)
        results.append({file.relative_to(tree): file.read_bytes() for file in tree.rglob("*") if file.is_file()})
    assert results[0] == results[1]
    assert results[0]
