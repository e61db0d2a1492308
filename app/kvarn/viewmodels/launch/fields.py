"""The form's fields: what each is called, and the engine flag behind it."""

from __future__ import annotations

from typing import Any

import msgspec

from kvarn.domain.launch.launch_plan import LOOPBACK, LaunchSettings
from kvarn.domain.quantity_text import count_text


class Field(msgspec.Struct, frozen=True):
    """One field of `LaunchSettings` as a person and as the engine know it."""

    label: str
    flag: str
    help: str


FIELDS: dict[str, Field] = {
    "model": Field("Model", "--model", "The file the engine loads."),
    "kv_k": Field("K cache", "--cache-type-k", "How keys are stored. Fewer bits, longer context, some loss."),
    "kv_v": Field("V cache", "--cache-type-v", "How values are stored. Quantised types need flash attention."),
    "context_tokens": Field("Context", "--ctx-size", "Tokens one conversation can hold, prompt and answer together."),
    "slots": Field("Slots", "--parallel", "Conversations served at the same time; each has its own context."),
    "kv_unified": Field("Shared pool", "--kv-unified", "All slots draw from one pool instead of each having its own."),
    "flash_attention": Field("Flash attention", "--flash-attn", "Auto lets the engine decide for this device."),
    "gpu_layers": Field("GPU layers", "--n-gpu-layers", "Layers kept on the GPU; auto lets the engine decide."),
    "threads": Field("Threads", "--threads", "CPU threads; auto lets the engine decide."),
    "batch_tokens": Field("Batch", "--batch-size", "Prompt tokens handled in one go."),
    "ubatch_tokens": Field("Micro-batch", "--ubatch-size", "Tokens in one compute step; larger needs more memory."),
    "speculation": Field("Speculation", "--spec-type", "Guess several tokens ahead and check them in one step."),
    "adaptive_drafts": Field("Adaptive drafts", "--spec-adaptive", "Guess as far ahead as pays off at the moment."),
    "swa_full": Field("Full window cache", "--swa-full", "Keep the whole context in sliding-window layers too."),
    "kv_pad": Field("Cache padding", "--kv-pad", "Larger steps mean fewer graph rebuilds; auto grows with the text."),
    "checkpoints_mib": Field("Checkpoints", "--ctx-checkpoints-mib", "RAM for undoing turns of a hybrid model."),
    "use_mmproj": Field("Projector", "--mmproj", "Load the image or audio projector found beside the model."),
    "port": Field("Port", "--port", "Where clients find the endpoint."),
    "host": Field("Reachable from", "--host", "This computer only, or the local network, which needs an API key."),
    "alias": Field("Name for clients", "--alias", "Shown by /v1/models; empty means the model's title."),
    "extra_args": Field("Extra flags", "", "Passed to the engine as they are, after ours."),
}


def value_text(field: str, value: Any) -> str:
    """A setting's value in a short sentence."""
    if field == "host":
        return "this computer" if value == LOOPBACK else "the network"
    if value is None:
        return "auto"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return " ".join(value) or "none"
    if field in {"context_tokens", "batch_tokens", "ubatch_tokens", "kv_pad"}:
        return count_text(value)
    return str(value) or "none"


def differences(running: LaunchSettings, wanted: LaunchSettings) -> tuple[str, ...]:
    """What a relaunch would change, e.g. `Context 8,192 → 16,384`."""
    return tuple(
        f"{FIELDS[name].label} {value_text(name, old)} → {value_text(name, new)}"
        for name in LaunchSettings.__struct_fields__
        if (old := getattr(running, name)) != (new := getattr(wanted, name))
    )
