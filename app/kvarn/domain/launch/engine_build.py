"""What one engine offers, as it says itself: build info, `--help`, never assumption."""

from __future__ import annotations

from pathlib import Path

import msgspec

from kvarn.domain.kv_type import KvType


class EnginePatch(msgspec.Struct, frozen=True):
    """One patch of our series inside a build."""

    name: str
    sha256: str
    subject: str


class EngineBuild(msgspec.Struct, frozen=True, kw_only=True):
    """One engine: ours when `patches` came from `kvarn-build-info.json`, else a stock llama-server."""

    server: Path
    bin_dir: Path
    base: str
    """e.g. `llama-cpp-python 0.3.36`; `unknown` for a stock engine that does not tell."""
    version: str
    """e.g. `0.3.36+kvarn.1`, or what `--version` prints."""
    is_kvarn: bool
    patches: tuple[EnginePatch, ...] = ()
    backends: tuple[str, ...] = ("CPU",)
    kv_types: tuple[KvType, ...] = ()
    compiler: str = ""
    flags: frozenset[str] = frozenset()
    """Long options named by `--help`, e.g. `--cache-type-k`; a control whose flag is missing is greyed out."""
    spec_types: tuple[str, ...] = ()
    """Values `--spec-type` takes, `none` first; empty for an engine without the option."""

    def kv_type(self, name: str) -> KvType | None:
        """The type of that exact name, if this engine offers it."""
        return next((kv for kv in self.kv_types if kv.name == name), None)

    def offers(self, flag: str) -> bool:
        """True when `--help` names the long option."""
        return flag in self.flags
