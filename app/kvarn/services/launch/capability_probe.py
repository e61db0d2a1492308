"""Asks an engine what it offers: `kvarn-build-info.json` beside it, `--help`, `--version`. Answers are cached."""

from __future__ import annotations

import contextlib
import re
import subprocess
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from kvarn.domain.errors import EngineCallError
from kvarn.domain.kv_type import KvType, stock_kv_type
from kvarn.domain.launch.engine_build import EngineBuild, EnginePatch
from kvarn.services import paths
from kvarn.services.atomic_file import write_atomic
from kvarn.services.launch.child_process import child_environment

BUILD_INFO_NAME = "kvarn-build-info.json"
CACHE_NAME = "engine-probes.json"
_T = TypeVar("_T")
_PROBE_S = 20.0
_CACHE_FORMAT = 1
_KEPT = 8


def probe_engine(server: Path) -> EngineBuild:
    """What that llama-server offers. Raises EngineCallError with its words when it does not answer."""
    key = _identity(server)
    cached = _cached(key)
    if cached:
        return cached
    build = _ask(server)
    _remember(key, build)
    return build


def _ask(server: Path) -> EngineBuild:
    help_text, version_text = _run(server, "--help"), _run(server, "--version")
    info = read_build_info(server.with_name(BUILD_INFO_NAME))
    return EngineBuild(
        server=server,
        bin_dir=server.parent,
        base=_text(info, "base") or "unknown",
        version=_text(info, "version") or version_from(version_text),
        is_kvarn=bool(info),
        patches=_list(info, "patches", EnginePatch),
        backends=_list(info, "backends", str) or backends_beside(server.parent),
        kv_types=_list(info, "kv_types", KvType) or kv_types_from(help_text),
        compiler=_text(info, "compiler") or compiler_from(version_text),
        flags=flags_from(help_text),
        spec_types=spec_types_from(help_text),
    )


def _run(server: Path, option: str) -> str:
    """Both streams: `--version` answers on stderr. Raises EngineCallError."""
    failed = f"The engine {server} did not answer {option}"
    try:
        done = subprocess.run(
            [str(server), option],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_PROBE_S,
            env=child_environment({}),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise EngineCallError(f"{failed} within {_PROBE_S:.0f} s.") from error
    except OSError as error:
        raise EngineCallError(f"{failed}: {error.strerror}.") from error
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode != 0:
        raise EngineCallError(f"{failed} (exit code {done.returncode}).", text[-2000:])
    return text


def flags_from(help_text: str) -> frozenset[str]:
    """Every long option that begins a paragraph of the help text."""
    heads = (line[:200] for line in help_text.splitlines() if line.startswith("-") and not line.startswith("-----"))
    return frozenset(flag for head in heads for flag in re.findall(r"(?<![\w-])--[a-z0-9][\w-]*", head))


def kv_types_from(help_text: str) -> tuple[KvType, ...]:
    """The names `--cache-type-k` allows; those whose size is not known cannot be budgeted and are left out."""
    match = re.search(r"--cache-type-k\b.*?allowed values:([^\n]*(?:\n {20,}[^\n(]*)*)", help_text, re.DOTALL)
    names = re.findall(r"[\w.]+", match.group(1)) if match else []
    return tuple(kv for name in names if (kv := stock_kv_type(name)))


def spec_types_from(help_text: str) -> tuple[str, ...]:
    """The values of `--spec-type`."""
    match = re.search(r"^--spec-type\s+(\S+)", help_text, re.MULTILINE)
    return tuple(match.group(1).split(",")) if match else ()


def version_from(version_text: str) -> str:
    """The text after `version:`."""
    match = re.search(r"^version:\s*(.+)$", version_text, re.MULTILINE)
    return match.group(1).strip() if match else "unknown"


def compiler_from(version_text: str) -> str:
    """The text after `built with`."""
    match = re.search(r"^built with\s+(.+)$", version_text, re.MULTILINE)
    return match.group(1).strip() if match else ""


def backends_beside(bin_dir: Path) -> tuple[str, ...]:
    """A stock engine's back ends by the names of its ggml libraries."""
    folders = (bin_dir, bin_dir.parent / "lib")
    names = {path.name for folder in folders for path in folder.glob("*ggml-*")}
    found = {m.group(1) for name in names if (m := re.match(r"(?:lib)?ggml-([a-z]+)", name))} - {"base", "cpu"}
    return ("CPU", *sorted(name.upper() for name in found))


def read_build_info(path: Path) -> dict[str, Any]:
    """Our build's own description; empty for a stock engine or an unreadable file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError, RecursionError):
        return {}


def _text(info: dict[str, Any], name: str) -> str:
    value = info.get(name)
    return value if isinstance(value, str) else ""


def _list(info: dict[str, Any], name: str, kind: type[_T]) -> tuple[_T, ...]:
    try:
        return msgspec.convert(info.get(name, []), tuple[kind, ...])  # type: ignore[valid-type]
    except msgspec.ValidationError:
        return ()


# -- cache: an engine is the same while its program and its description keep size and time ------------


class _Cache(msgspec.Struct):
    format: int = _CACHE_FORMAT
    builds: dict[str, EngineBuild] = {}


def _identity(server: Path) -> str:
    parts = [str(server)]
    for path in (server, server.with_name(BUILD_INFO_NAME)):
        with contextlib.suppress(OSError):
            stat = path.stat()
            parts.append(f"{stat.st_size}.{stat.st_mtime_ns}")
    return "|".join(parts)


def _load_cache() -> _Cache:
    try:
        cache = msgspec.json.decode((paths.cache_dir() / CACHE_NAME).read_bytes(), type=_Cache, dec_hook=_path)
    except (OSError, msgspec.DecodeError, RecursionError):
        return _Cache()
    return cache if cache.format == _CACHE_FORMAT else _Cache()


def _path(kind: type, value: Any) -> Any:
    return kind(value)


def _cached(key: str) -> EngineBuild | None:
    return _load_cache().builds.get(key)


def _remember(key: str, build: EngineBuild) -> None:
    kept = dict(list(_load_cache().builds.items())[-_KEPT + 1 :])
    content = msgspec.json.encode(_Cache(builds=kept | {key: build}), enc_hook=str)
    with contextlib.suppress(OSError):
        write_atomic(paths.cache_dir() / CACHE_NAME, content)
