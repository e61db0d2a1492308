"""The pinned upstream source: what upstream.toml says, and the verified archive on disk."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from . import locations


class EngineBuildError(Exception):
    """The build cannot go on; the message is a sentence that says what to do."""


@dataclass(frozen=True)
class Pin:
    """One upstream release, identified by the hash of its sdist."""

    name: str
    version: str
    sdist: str
    sha256: str
    llama_cpp: str
    llama_cpp_commit: str

    @property
    def base(self) -> str:
        """The upstream release as people write it, e.g. `llama-cpp-python 0.3.36`."""
        return f"{self.name} {self.version}"

    @property
    def folder(self) -> str:
        """The single top folder inside the archive."""
        return self.sdist.removesuffix(".tar.gz")


def read_pin() -> Pin:
    """The pin as engine/upstream.toml states it."""
    return Pin(**tomllib.loads((locations.ENGINE / "upstream.toml").read_text(encoding="utf-8")))


def fetch_sdist(pin: Pin) -> Path:
    """The verified archive: from our cache if it is there, otherwise through the ordinary pip client."""
    archive = locations.cache() / "sdist" / pin.sdist
    if not archive.exists() or _sha256(archive) != pin.sha256:
        archive.parent.mkdir(parents=True, exist_ok=True)
        _pip_download(pin, archive)
    return archive


def _pip_download(pin: Pin, archive: Path) -> None:
    # Into a folder of its own and moved when whole: a killed download must not leave half an archive behind.
    with tempfile.TemporaryDirectory(dir=archive.parent) as folder:
        wanted = Path(folder, "requirements.txt")
        wanted.write_text(f"{pin.name}=={pin.version} --hash=sha256:{pin.sha256}\n", encoding="utf-8")
        # Without build isolation pip prepares the sdist's metadata with the scikit-build-core already here.
        source_only = ["--no-deps", "--no-binary", ":all:", "--no-build-isolation", "--require-hashes"]
        where = ["--progress-bar", "off", "--dest", folder, "--requirement", str(wanted)]
        command = [sys.executable, "-m", "pip", "download", *source_only, *where]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        print(done.stdout, done.stderr, sep="", flush=True)
        if done.returncode:
            raise EngineBuildError(_why_no_sdist(pin, done.stderr))
        Path(folder, pin.sdist).replace(archive)


def _why_no_sdist(pin: Pin, pip_words: str) -> str:
    if "No module named pip" in pip_words:
        return (
            f"{sys.executable} has no pip, which downloads the pinned source: use one that has (uv run --with pip …)."
        )
    last = next((line for line in reversed(pip_words.splitlines()) if line.strip()), "no output")
    return (
        f"The source of {pin.base} could not be downloaded ({last.strip()}). Check the network and pip's settings, "
        f"or put {pin.sdist} into {locations.cache() / 'sdist'} and try again."
    )


def unpack(pin: Pin, archive: Path, target: Path) -> None:
    """Unpack the archive so that `target` holds `<name>-<version>/`.

    The sdist carries its maker's `.git` folders; with them, upstream's CMake takes a foreign commit for its own.
    """
    with tarfile.open(archive) as tar:
        wanted = [member for member in tar if ".git" not in Path(member.name).parts]
        tar.extractall(target, wanted, filter="data")


def read_llama_cpp(pin: Pin, archive: Path, wanted: Iterable[str]) -> tuple[set[str], dict[str, bytes]]:
    """All file paths below llama.cpp's root in the archive, and the content of the `wanted` ones that exist."""
    root = f"{pin.folder}/{pin.llama_cpp}/"
    names: set[str] = set()
    contents: dict[str, bytes] = {}
    wanted = set(wanted)
    with tarfile.open(archive) as tar:
        for member in tar:
            path = member.name.removeprefix(root)
            if member.isfile() and path != member.name:
                names.add(path)
                if path in wanted and (stream := tar.extractfile(member)):
                    contents[path] = stream.read()
    return names, contents


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
