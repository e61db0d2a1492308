"""Extra engine arguments a person typed: which of them matter to a plan, which may not be there."""

from __future__ import annotations

import itertools

DRAFT_TYPE_K = ("--spec-draft-type-k", "-ctkd", "--cache-type-k-draft")
DRAFT_TYPE_V = ("--spec-draft-type-v", "-ctvd", "--cache-type-v-draft")
DRAFT_TOKENS = ("--spec-draft-n-max",)
DRAFT_TOKENS_DEFAULT = 3
"""`common_params_speculative_draft::n_max` of the pinned base."""

OWN_FIELDS: dict[str, str] = {
    "-m": "model",
    "--model": "model",
    "-c": "context_tokens",
    "--ctx-size": "context_tokens",
    "-np": "slots",
    "--parallel": "slots",
    "-kvu": "kv_unified",
    "--kv-unified": "kv_unified",
    "-no-kvu": "kv_unified",
    "--no-kv-unified": "kv_unified",
    "-ctk": "kv_k",
    "--cache-type-k": "kv_k",
    "-ctv": "kv_v",
    "--cache-type-v": "kv_v",
    "-fa": "flash_attention",
    "--flash-attn": "flash_attention",
    "-ngl": "gpu_layers",
    "--gpu-layers": "gpu_layers",
    "--n-gpu-layers": "gpu_layers",
    "-t": "threads",
    "--threads": "threads",
    "-b": "batch_tokens",
    "--batch-size": "batch_tokens",
    "-ub": "ubatch_tokens",
    "--ubatch-size": "ubatch_tokens",
    "--spec-type": "speculation",
    "--spec-adaptive": "adaptive_drafts",
    "--no-spec-adaptive": "adaptive_drafts",
    "--swa-full": "swa_full",
    "--kv-pad": "kv_pad",
    "--ctx-checkpoints-mib": "checkpoints_mib",
    "-mm": "use_mmproj",
    "--mmproj": "use_mmproj",
    "--no-mmproj": "use_mmproj",
    "--host": "host",
    "--port": "port",
    "-a": "alias",
    "--alias": "alias",
}
"""Engine flags that Kvarn sets itself, and the launch setting each belongs to."""

SECRET_FLAGS = frozenset({"--api-key", "--hf-token", "-hft"})
"""Values that every user of this machine could read from the process list."""


def flag_of(argument: str) -> str | None:
    """The option an argument names (`--port=1` -> `--port`), None for a plain value or a number."""
    if not argument.startswith("-") or argument[1:2].isdigit():
        return None
    return argument.partition("=")[0]


def argument_value(arguments: tuple[str, ...], names: tuple[str, ...]) -> str | None:
    """The value given last to any of `names`, None when absent."""
    found = None
    for here, following in itertools.pairwise((*arguments, "")):
        if here in names:
            found = following
    return found
