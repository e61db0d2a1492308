"""The version pins in pyproject.toml: `refresh` resolves them anew, `check` proves that none is missing.

uv's lock file writes registry addresses, which must not enter a commit, so it is made on the spot and
git-ignored. What is committed instead is every version, transitive ones too, under
`[tool.uv] constraint-dependencies`, and those of build environments under `build-constraint-dependencies`.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = ROOT / "pyproject.toml"
ENGINE = "llama-cpp-python"
"""Pinned by hash in engine/, not by a constraint."""


def requirement_name(requirement: str) -> str:
    """The normalised project name of a requirement line."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    if not name:
        raise ValueError(f"not a requirement: {requirement!r}")
    return re.sub(r"[-_.]+", "-", name.group()).lower()


def refresh(uv: str) -> None:
    """Resolve without the old pins and write the new ones."""
    import tomlkit

    document = tomlkit.parse(PYPROJECT.read_text())
    table = document["tool"]["uv"]
    for key in ("constraint-dependencies", "build-constraint-dependencies"):
        table.pop(key, None)
    PYPROJECT.write_text(tomlkit.dumps(document))
    table["constraint-dependencies"] = multiline(tomlkit, resolved_project(uv))
    table["build-constraint-dependencies"] = multiline(tomlkit, resolved_builds(uv))
    PYPROJECT.write_text(tomlkit.dumps(document))
    subprocess.run([uv, "lock", "--quiet"], cwd=ROOT, check=True)


def multiline(tomlkit, requirements: list[str]):
    """A TOML array with one requirement a line."""
    array = tomlkit.array()
    array.extend(requirements)
    return array.multiline(True)


def resolved_project(uv: str) -> list[str]:
    """Every version of the universal resolution, as `name==version ; marker`."""
    subprocess.run([uv, "lock", "--quiet", "--upgrade"], cwd=ROOT, check=True)
    text = capture(
        uv, "export", "--quiet", "--no-hashes", "--no-annotate", "--no-header", "--no-emit-project", "--all-groups"
    )
    return sorted({line for line in text.splitlines() if "==" in line and requirement_name(line) != ENGINE})


def resolved_builds(uv: str) -> list[str]:
    """The same for the build environments of this project and the engine."""
    wanted = [line for file in build_files() for line in tomllib.loads(file.read_text())["build-system"]["requires"]]
    with tempfile.NamedTemporaryFile("w", suffix=".in") as listing:
        listing.write("\n".join(wanted))
        listing.flush()
        text = capture(
            uv,
            "pip",
            "compile",
            "--quiet",
            "--universal",
            "--no-annotate",
            "--no-header",
            "--python-version",
            "3.11",
            listing.name,
        )
    return sorted(line for line in text.splitlines() if "==" in line)


def build_files() -> list[Path]:
    """The pyproject files whose builds we pin."""
    return [PYPROJECT, ROOT / "engine" / "pyproject.toml"]


def capture(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE).stdout


def problems() -> list[str]:
    """Sentences about versions that are not pinned and addresses that must not be committed."""
    project = tomllib.loads(PYPROJECT.read_text())
    pinned = {requirement_name(line) for line in project["tool"]["uv"].get("constraint-dependencies", ())}
    direct = [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]
    found = [f"{name} has no pinned version" for name in map(requirement_name, direct) if name not in {*pinned, ENGINE}]
    for file in build_files():
        for line in tomllib.loads(file.read_text())["build-system"]["requires"]:
            if "==" not in line:
                found.append(f"{file.relative_to(ROOT)}: build requirement {line} is not pinned")
    return found + [f"{path} names a package registry" for path in files_with_addresses()]


def files_with_addresses() -> list[str]:
    """Tracked files that hold the address of a package registry."""
    pattern = r"https?://[a-z.]*(python" + r"hosted|py" + r"pi|npm" + r"js|deb" + r"ian)\."
    done = subprocess.run(["git", "grep", "-lE", pattern], cwd=ROOT, text=True, stdout=subprocess.PIPE, check=False)
    return done.stdout.split()


def main() -> int:
    """Run one verb; exit 1 when `check` finds something."""
    parser = argparse.ArgumentParser(description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser("check")
    verbs.add_parser("refresh").add_argument("--uv", required=True)
    arguments = parser.parse_args()
    if arguments.verb == "refresh":
        refresh(arguments.uv)
        return 0
    found = problems()
    for line in found:
        print(f"pins: {line}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
