"""The values of a launch: a draft while it is edited, a plan once it is legal, problems in between.

Context is counted per slot, as a client sees it: the engine is asked for `context_tokens * slots`
cells unless the slots share one pool (`kv_unified`), where the pool itself has `context_tokens` cells.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

import msgspec

from kvarn.domain.library.model_entry import ModelEntry

DEFAULT_PORT = 5827
"""KVAR on a telephone keypad."""
LOOPBACK = "127.0.0.1"
EVERY_INTERFACE = "0.0.0.0"
"""IPv4 only."""


class FlashAttention(StrEnum):
    """The engine's `--flash-attn` values."""

    AUTO = "auto"
    ON = "on"
    OFF = "off"


class Severity(StrEnum):
    """A problem blocks the launch or only warns."""

    BLOCKS = "blocks"
    WARNS = "warns"


class PlanProblem(msgspec.Struct, frozen=True, kw_only=True):
    """Expected trouble with a draft: what is wrong and what to do about it, one sentence each."""

    code: str
    message: str
    remedy: str
    severity: Severity = Severity.BLOCKS
    field: str = ""
    """The draft field it concerns, so that a form can mark it."""


class LaunchSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a person chooses for a launch besides the model; also what a profile stores."""

    kv_k: str = "f16"
    kv_v: str = "f16"
    context_tokens: int = 8192
    """Per slot; see the module text."""
    slots: int = 1
    kv_unified: bool = False
    flash_attention: FlashAttention = FlashAttention.AUTO
    gpu_layers: int | None = None
    """None lets the engine decide."""
    threads: int | None = None
    batch_tokens: int = 2048
    ubatch_tokens: int = 512
    speculation: str = "none"
    """A value of `--spec-type` the engine lists, or `none`."""
    adaptive_drafts: bool = True
    """The draft length follows acceptance and step time; without effect where the engine cannot or nothing drafts."""
    swa_full: bool = False
    kv_pad: int | None = 256
    """Cells attended are rounded up to a multiple of it, 256 as upstream; None lets the step grow with the text."""
    checkpoints_mib: int | None = None
    """RAM of all context checkpoints in MiB, 0 for none; None lets the engine decide."""
    use_mmproj: bool = True
    port: int = DEFAULT_PORT
    host: str = LOOPBACK
    alias: str = ""
    """Name shown by `/v1/models`; empty means the model's title."""
    extra_args: tuple[str, ...] = ()
    """Passed to the engine as they are, after ours."""


class LaunchDraft(msgspec.Struct, frozen=True, kw_only=True):
    """What the form or the command line holds right now; may be illegal."""

    model: ModelEntry | None
    settings: LaunchSettings
    has_api_key: bool = False


class LaunchPlan(msgspec.Struct, frozen=True, kw_only=True):
    """A legal launch, ready for `plan_to_argv`. Only `make_plan` builds it."""

    model_path: Path
    model_title: str
    mmproj: Path | None
    alias: str
    settings: LaunchSettings

    @property
    def total_context_tokens(self) -> int:
        """Cells asked of the engine with `--ctx-size`."""
        s = self.settings
        return s.context_tokens if s.kv_unified else s.context_tokens * s.slots

    @property
    def base_url(self) -> str:
        """The engine's address from this machine: a wildcard host is reached over loopback."""
        host = {EVERY_INTERFACE: LOOPBACK, "::": "::1"}.get(self.settings.host, self.settings.host)
        return f"http://[{host}]:{self.settings.port}" if ":" in host else f"http://{host}:{self.settings.port}"

    @property
    def endpoint(self) -> str:
        """Base URL an OpenAI client on this machine uses."""
        return f"{self.base_url}/v1"
