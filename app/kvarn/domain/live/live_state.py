"""The engine's own live state, as `GET /live` and its stream tell it (engine/protocol/live.md, version 1).

Every member but the version may be missing: an engine of another age tells more or less, and absence is None.
Counts are tokens, sizes bytes, times milliseconds unless the name says nanoseconds.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

__all__ = ["LiveState", "parse_live"]

Count = Annotated[int, Meta(ge=0, le=10**15)]
"""Larger is a broken value, as in every other count an engine tells."""
Milliseconds = Annotated[float, Meta(ge=0, le=1e15)]
Speed = Annotated[float, Meta(ge=0, le=1e9)]


class LivePrompt(msgspec.Struct, frozen=True):
    """The prompt of a slot's present request."""

    total: Count = 0
    cached: Count = 0
    processed: Count = 0
    """Computed so far; with `cached` it reaches `total`."""


class LiveStore(msgspec.Struct, frozen=True):
    """Something kept: how many and how large."""

    count: Count = 0
    bytes: Count = 0


class LiveSlot(msgspec.Struct, frozen=True):
    """One slot."""

    id: Count
    phase: str
    """`idle`, `wait`, `prefill`, `decode`, or a state being saved or restored."""
    task: Count | None = None
    n_ctx: Count = 0
    held: Count = 0
    prompt: LivePrompt = LivePrompt()
    decoded: Count = 0
    drafted: Count = 0
    draft_accepted: Count = 0
    prefill_ms: Milliseconds = 0.0
    decode_ms: Milliseconds = 0.0
    prefill_tok_per_s: Speed | None = None
    decode_tok_per_s: Speed | None = None
    checkpoints: LiveStore = LiveStore()

    @property
    def is_processing(self) -> bool:
        """True while the slot has a request; saving an idle slot's state is not one."""
        return self.prompt.total > 0 or self.phase in {"wait", "prefill", "decode"}


class LiveRequests(msgspec.Struct, frozen=True):
    """Requests now, and how many ended since the start."""

    processing: Count = 0
    waiting: Count = 0
    finished: Count | None = None


class LiveTokens(msgspec.Struct, frozen=True):
    """Totals since the engine's start, counted as the tokens come."""

    prompt_total: Count = 0
    prompt_cached_total: Count = 0
    generated_total: Count = 0
    prompt_ms_total: Milliseconds = 0.0
    generated_ms_total: Milliseconds = 0.0
    drafted_total: Count = 0
    draft_accepted_total: Count = 0


class LiveStep(msgspec.Struct, frozen=True):
    """The newest step."""

    tokens: Count = 0
    decode_ms: Milliseconds = 0.0
    sampling_ms: Milliseconds = 0.0
    other_ms: Milliseconds = 0.0


class LiveSteps(msgspec.Struct, frozen=True):
    """What the steps consist of, as totals."""

    count: Count = 0
    decode_ms_total: Milliseconds = 0.0
    sampling_ms_total: Milliseconds = 0.0
    other_ms_total: Milliseconds = 0.0
    last: LiveStep | None = None


class LiveCache(msgspec.Struct, frozen=True):
    """One KV cache or recurrent state."""

    context: str = "target"
    kind: str = "full"
    """`full`, `window` or `recurrent`."""
    type_k: str | None = None
    type_v: str | None = None
    k_bytes: Count = 0
    v_bytes: Count = 0
    cells: Count = 0
    cells_used: Count = 0


class LivePad(msgspec.Struct, frozen=True):
    """How the attention window is padded."""

    policy: str | None = None
    cells: Count | None = None


class LiveKv(msgspec.Struct, frozen=True):
    """All caches, target first."""

    caches: tuple[LiveCache, ...] = ()
    pad: LivePad | None = None


class LiveCuda(msgspec.Struct, frozen=True):
    """CUDA graphs of one device: totals, and those it holds now."""

    device: str = ""
    replays: Count = 0
    captures: Count = 0
    eager: dict[str, Count] = {}
    """Runs without a graph, by reason."""
    instantiations: Count = 0
    updates: Count = 0
    update_failures: Count = 0
    evictions: Count = 0
    live: Count = 0
    capture_ms_total: Milliseconds | None = None
    instantiate_ms_total: Milliseconds | None = None
    update_ms_total: Milliseconds | None = None


class LiveGraphs(msgspec.Struct, frozen=True):
    """Compute graphs, totals; `reasons` sum up to `built`."""

    ubatches: Count = 0
    built: Count = 0
    reused: Count = 0
    reasons: dict[str, Count] = {}
    cuda: tuple[LiveCuda, ...] | None = None


class LiveBuffer(msgspec.Struct, frozen=True):
    """What one context allocated of one kind of memory, by purpose."""

    context: str = "target"
    name: str = ""
    device: str | None = None
    host: bool = True
    model_bytes: Count = 0
    context_bytes: Count = 0
    compute_bytes: Count = 0


class LiveDevice(msgspec.Struct, frozen=True):
    """One device; `free_bytes` is None where its backend cannot know."""

    name: str = ""
    description: str = ""
    total_bytes: Count = 0
    free_bytes: Count | None = None


class LiveMemory(msgspec.Struct, frozen=True):
    """Memory by device and purpose."""

    buffers: tuple[LiveBuffer, ...] = ()
    devices: tuple[LiveDevice, ...] = ()


class LiveCheckpoints(msgspec.Struct, frozen=True):
    """Context checkpoints over all slots and the prompt cache."""

    count: Count = 0
    bytes: Count = 0
    budget_bytes: Count | None = None
    staging_bytes: Count | None = None
    saved: Count | None = None
    restored: Count | None = None
    evicted: Count | None = None
    declined: Count | None = None


class LivePromptCache(msgspec.Struct, frozen=True):
    """Conversations kept in RAM; no limit is None."""

    entries: Count = 0
    bytes: Count = 0
    limit_bytes: Count | None = None


class LiveSpeculation(msgspec.Struct, frozen=True):
    """Speculation in use; totals since the engine's start."""

    kind: str = ""
    adaptive: bool | None = None
    depth: Count = 0
    depth_max: Count | None = None
    drafts: Count = 0
    drafted: Count = 0
    accepted: Count = 0
    acceptance: tuple[float | None, ...] = ()
    """By draft position from 0, each 0 to 1: accepted there, of those accepted up to there."""
    step_ms: tuple[Milliseconds | None, ...] = ()
    """Mean time of a step by draft length from 0."""


class LiveState(msgspec.Struct, frozen=True):
    """One answer of `/live`."""

    version: int
    seq: Count
    published: Count
    state: str = "ready"
    start_unix_ms: Count = 0
    published_ns: Annotated[int, Meta(ge=0)] = 0
    now_ns: Annotated[int, Meta(ge=0)] = 0
    slots: tuple[LiveSlot, ...] = ()
    requests: LiveRequests = LiveRequests()
    tokens: LiveTokens = LiveTokens()
    steps: LiveSteps | None = None
    kv: LiveKv = LiveKv()
    graphs: LiveGraphs | None = None
    memory: LiveMemory = LiveMemory()
    checkpoints: LiveCheckpoints | None = None
    prompt_cache: LivePromptCache | None = None
    speculation: LiveSpeculation | None = None


_decoder = msgspec.json.Decoder(LiveState)


def parse_live(body: bytes | str) -> LiveState | None:
    """Read one answer; names not listed here are skipped. None when it cannot be read or is of another version."""
    try:
        state = _decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return state if state.version == 1 else None
