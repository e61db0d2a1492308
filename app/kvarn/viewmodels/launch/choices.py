"""The entries of the form's combo boxes, unusable ones with their reason."""

from __future__ import annotations

import msgspec

from kvarn.domain.kv_type import KvType
from kvarn.domain.launch.attention_layout import UnknownLayout, attention_layout
from kvarn.domain.launch.check_draft import check_draft
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.launch_plan import FlashAttention, LaunchDraft, Severity

SAME_AS_K = ""
"""Value of the V choice that follows K."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """One entry. `reason` is empty when it can be chosen."""

    value: str
    text: str
    detail: str = ""
    reason: str = ""
    kv_type: str = ""
    """The cache type whose fixed colour belongs to it."""


def bits_text(draft: LaunchDraft, field: str, kv: KvType) -> str:
    """`8.5 bits`, of the blocks the engine picks for the chosen model's K or V heads."""
    layout = attention_layout(draft.model.facts) if draft.model and draft.model.facts else None
    if layout is not None and not isinstance(layout, UnknownLayout):
        kv = kv.for_heads(layout.k_head_sizes if field == "kv_k" else layout.v_head_sizes)
    return f"{kv.bits_per_value:g} bits"


def kv_choices(draft: LaunchDraft, build: EngineBuild | None, field: str) -> tuple[Choice, ...]:
    """The engine's own list for `kv_k` or `kv_v`, then the draft's type if the engine lacks it."""
    types = build.kv_types if build else ()
    offered = [
        Choice(
            value=kv.name,
            text=kv.name,
            detail=bits_text(draft, field, kv),
            reason=_reason(draft, build, field, kv),
            kv_type=kv.name,
        )
        for kv in types
    ]
    wanted = getattr(draft.settings, field)
    if build is not None and build.kv_type(wanted) is None:
        offered.append(Choice(value=wanted, text=wanted, reason="not in this engine build", kv_type=wanted))
    return tuple(offered)


def same_as_k(draft: LaunchDraft, build: EngineBuild | None) -> Choice:
    """The V choice that follows whatever K is."""
    name = draft.settings.kv_k
    kv = build.kv_type(name) if build else None
    return Choice(
        value=SAME_AS_K,
        text="same as K",
        reason=_reason(draft, build, "kv_v", kv) if kv else "",
        kv_type=name,
    )


def speculation_choices(draft: LaunchDraft, build: EngineBuild | None) -> tuple[Choice, ...]:
    """Off, and what the engine lists for `--spec-type`."""
    kinds = build.spec_types if build else ()
    listed = [_speculation(kind, draft) for kind in kinds if kind != "none"]
    wanted = draft.settings.speculation
    if wanted != "none" and wanted not in kinds:
        listed.append(Choice(value=wanted, text=wanted, reason="not in this engine build"))
    return (Choice(value="none", text="off"), *listed)


def _speculation(kind: str, draft: LaunchDraft) -> Choice:
    text = _SPECULATION.get(kind, kind)
    facts = draft.model.facts if draft.model else None
    has_mtp = bool(facts and facts.tensors and facts.tensors.nextn_bytes)
    reason = ""
    if kind == "draft-mtp" and not has_mtp:
        reason = "this model has no multi-token-prediction layer"
    elif kind.startswith("draft-") and kind != "draft-mtp":
        reason = "needs a second, smaller model"
    return Choice(value=kind, text=text, reason=reason)


_SPECULATION = {
    "draft-mtp": "MTP, the model's own draft layer",
    "draft-simple": "draft model",
    "draft-eagle3": "EAGLE-3 draft model",
    "ngram-cache": "n-gram cache",
    "ngram-simple": "n-gram, repeats of the text",
    "ngram-map-k": "n-gram map, keys",
    "ngram-map-k4v": "n-gram map, keys and values",
    "ngram-mod": "n-gram, hashed",
}


def _reason(draft: LaunchDraft, build: EngineBuild | None, field: str, kv: KvType) -> str:
    """Why this model cannot have the type at all; what another field can cure is no reason to grey it."""
    if draft.model is None or not draft.model.is_servable:
        return ""
    trial = msgspec.structs.replace(
        draft.settings, kv_k=kv.name, kv_v=kv.name, flash_attention=FlashAttention.ON, extra_args=()
    )
    found = check_draft(msgspec.structs.replace(draft, settings=trial), build).problems
    return next((p.message for p in found if p.field == field and p.severity is Severity.BLOCKS), "")
