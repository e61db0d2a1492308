"""`kvarn doctor`: what this machine and this installation can do, what is wrong, and the cure."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import typer

from kvarn.commands.launch_options import Json
from kvarn.commands.output import fail, list_text, print_json
from kvarn.domain.errors import EngineCallError, EngineNotFoundError
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.launch_plan import LOOPBACK, PlanProblem
from kvarn.domain.quantity_text import bytes_text
from kvarn.domain.settings import Settings
from kvarn.services import paths
from kvarn.services.launch.engine_locator import locate_engine
from kvarn.services.launch.free_memory import free_ram_bytes
from kvarn.services.launch.leftovers import engine_text, running_engines
from kvarn.services.launch.port_owner import port_problem
from kvarn.services.live.gpu_probe import GpuProbe, GpuReading
from kvarn.services.settings_store import SettingsStore

_LABEL = 16
"""Columns of a label with its indent."""


class Finding(msgspec.Struct, frozen=True):
    """Something wrong and its cure."""

    code: str
    message: str
    remedy: str


class Gpu(msgspec.Struct, frozen=True):
    """What the NVIDIA driver says; `reason` tells why there is none."""

    present: bool
    reason: str | None
    driver: str | None
    cards: tuple[GpuReading, ...]


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """Everything `kvarn doctor` says."""

    engine: EngineBuild | None
    gpu: Gpu
    folders: dict[str, Path]
    port: int
    port_state: PlanProblem | None
    """None when it is free, or held by an engine of ours."""
    port_engine: str = ""
    """The engine of ours that holds it, and who launched it."""
    free_ram_bytes: int
    problems: tuple[Finding, ...]


def doctor(as_json: Json = False) -> None:
    """Check engine, GPU, folders and port; name every problem with its cure.

    Exits with 1 when nothing could be launched as things are: no engine, or the port taken by another program.
    """
    found = diagnose()
    if as_json:
        print_json(diagnosis_document(found))
    else:
        typer.echo("\n".join(_lines(found)))
    in_the_way = [] if found.engine else [found.problems[0].message]
    if found.port_state is not None:
        in_the_way.append(f"{found.port_state.message} {found.port_state.remedy}")
    if in_the_way:
        fail(" ".join(in_the_way))


def diagnose() -> Diagnosis:
    """Look at everything once; nothing is changed."""
    loaded = SettingsStore().load()
    engine, engine_finding = _engine(loaded.settings)
    gpu = _gpu()
    port = loaded.settings.port
    ours = next((note for note in running_engines() if note.port == port), None)
    taken = None if ours else port_problem(LOOPBACK, port)
    folders = {name: getattr(paths, f"{name}_dir")() for name in ("config", "data", "state", "cache")}
    findings = [
        *engine_finding,
        *(Finding("settings", notice, "Look at the copy that was set aside.") for notice in loaded.notices),
        *(_gpu_unused(engine, gpu) if engine else ()),
        *(finding for name, path in folders.items() for finding in _unwritable(name, path)),
        *([Finding(taken.code, taken.message, taken.remedy)] if taken else []),
    ]
    return Diagnosis(
        engine=engine,
        gpu=gpu,
        folders=folders,
        port=port,
        port_state=taken,
        port_engine=engine_text(ours) if ours else "",
        free_ram_bytes=free_ram_bytes(),
        problems=tuple(findings),
    )


def _engine(settings: Settings) -> tuple[EngineBuild | None, list[Finding]]:
    try:
        build = locate_engine(settings)
    except EngineNotFoundError as error:
        return None, [Finding("no-engine", str(error), "Run `make run`, or `uv sync`, once to build it.")]
    except EngineCallError as error:
        message = " ".join([str(error), *error.detail.splitlines()[-1:]])
        return None, [
            Finding("engine-broken", message, "Rebuild it with `uv sync --reinstall-package llama-cpp-python`.")
        ]
    if build.kv_types:
        return build, []
    return build, [
        Finding("no-kv-types", "The engine's --help lists no cache types.", "Use the engine built by Kvarn.")
    ]


def _gpu() -> Gpu:
    probe = GpuProbe()
    try:
        cards = probe.read()
        return Gpu(bool(cards), probe.reason or None, probe.driver_version, cards)
    finally:
        probe.close()


def _gpu_unused(engine: EngineBuild, gpu: Gpu) -> list[Finding]:
    if not gpu.present or any("CUDA" in name.upper() for name in engine.backends):
        return []
    message = "There is a GPU, but this engine was built for the CPU only."
    return [Finding("gpu-unused", message, "Install the CUDA toolkit and run `KVARN_CUDA=1 uv sync`.")]


def _unwritable(name: str, path: Path) -> list[Finding]:
    existing = next(folder for folder in (path, *path.parents) if folder.exists())
    if existing.is_dir() and os.access(existing, os.W_OK):
        return []
    message = f"The {name} folder {path} cannot be written."
    return [Finding(f"{name}-not-writable", message, "Correct its permissions, or set KVARN_HOME to another folder.")]


def diagnosis_document(found: Diagnosis) -> dict[str, Any]:
    """The `--json` document; names are a contract."""
    port = {"number": found.port, "usable": found.port_state is None, "message": _port_message(found) or None}
    return {
        "engine": _engine_document(found.engine) if found.engine else None,
        "gpu": msgspec.to_builtins(found.gpu),
        "paths": {name: _text(path) for name, path in found.folders.items()},
        "port": port,
        "free_ram_bytes": found.free_ram_bytes,
        "problems": msgspec.to_builtins(found.problems),
    }


def _port_message(found: Diagnosis) -> str:
    """Who holds the port; empty when it is free."""
    if found.port_state is not None:
        return found.port_state.message
    return f"{found.port} is in use by {found.port_engine}" if found.port_engine else ""


def _engine_document(build: EngineBuild) -> dict[str, Any]:
    types = build.kv_types
    return {
        "base": build.base,
        "version": build.version,
        "is_kvarn": build.is_kvarn,
        "patches": [msgspec.to_builtins(patch) for patch in build.patches],
        "backends": list(build.backends),
        "kv_types": [msgspec.to_builtins(kv) | {"bits_per_value": kv.bits_per_value} for kv in types],
        "spec_types": list(build.spec_types),
        "compiler": build.compiler or None,
        "bin_dir": _text(build.bin_dir),
    }


def _text(path: Path) -> str:
    """JSON is UTF-8."""
    return os.fsencode(path).decode("utf-8", "replace")


def _lines(found: Diagnosis) -> list[str]:
    rows = [*_engine_rows(found.engine), *_machine_rows(found)]
    lines = [f"{'  ' + label:<{_LABEL}}{value}" for label, value in rows]
    if not found.problems:
        return [*lines, "", "  No problems found."]
    return [*lines, "", *(f"  ✗ {p.message} {p.remedy}" for p in found.problems)]


def _engine_rows(build: EngineBuild | None) -> list[tuple[str, str]]:
    if build is None:
        return [("engine", "none")]
    types = list_text((f"{kv.name} ({kv.bits_per_value:g})" for kv in build.kv_types), _LABEL)
    patches = list_text((patch.name for patch in build.patches), _LABEL) or "none: this is a stock engine"
    return [
        ("engine", f"{build.version} in {_text(build.bin_dir)}"),
        ("base", build.base),
        ("patches", patches),
        ("back ends", ", ".join(build.backends)),
        ("K/V types", f"{types} (bits per value)"),
    ]


def _machine_rows(found: Diagnosis) -> list[tuple[str, str]]:
    cards = ", ".join(f"{card.name} with {bytes_text(card.memory_total_bytes)}" for card in found.gpu.cards)
    state = _port_message(found) or f"{found.port} is free"
    rows = [("GPU", cards or f"none: {found.gpu.reason}"), ("free memory", bytes_text(found.free_ram_bytes))]
    rows += [("driver", found.gpu.driver)] if found.gpu.driver else []
    return [*rows, ("port", state), *((name, _text(path)) for name, path in found.folders.items())]
