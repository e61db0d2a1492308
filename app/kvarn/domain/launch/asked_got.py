"""Each setting requested beside what the running engine reports."""

from __future__ import annotations

import msgspec

from kvarn.domain.launch.command_line import served_name
from kvarn.domain.launch.engine_props import EngineProps
from kvarn.domain.launch.launch_plan import FlashAttention, LaunchPlan, LaunchSettings
from kvarn.domain.launch.memory_budget import MemoryBudget, MemoryKind

NOT_TOLD = "not told"


class AskedGot(msgspec.Struct, frozen=True):
    """One line of the comparison; `agrees` is None when the engine does not tell or chose itself."""

    label: str
    asked: str
    got: str
    agrees: bool | None


def asked_got(plan: LaunchPlan, props: EngineProps, budget: MemoryBudget | None) -> tuple[AskedGot, ...]:
    """Compare a plan, and the predicted KV bytes, with the engine's own word."""
    s = plan.settings
    vision = plan.mmproj is not None and s.use_mmproj
    return (
        _compare("Model", str(plan.model_path), props.model_path),
        _compare("Name", served_name(plan), props.alias),
        _compare("Context / slot", s.context_tokens, props.context_per_slot),
        _compare("Slots", s.slots, props.slots),
        _compare("K type", s.kv_k, props.kv_k),
        _compare("V type", s.kv_v, props.kv_v),
        _compare("KV bytes", budget.of(MemoryKind.KV) if budget and not budget.unknown else None, props.kv_bytes),
        _compare("Micro-batch", s.ubatch_tokens, props.ubatch_tokens),
        _compare("Cache padding", "auto" if s.kv_pad is None else str(s.kv_pad), props.kv_pad),
        _flash_attention(s.flash_attention, props.flash_attention),
        _compare("Speculation", s.speculation, props.speculation),
        *_draft_length(s, props),
        _compare("Image input", _yes(vision), _yes(props.vision)),
    )


def _compare(label: str, asked: int | str | None, got: int | str | None) -> AskedGot:
    agrees = None if asked is None or got is None else asked == got
    return AskedGot(label, _text(asked, "not known"), _text(got, NOT_TOLD), agrees)


def _flash_attention(asked: FlashAttention, got: bool | None) -> AskedGot:
    told = None if got is None else ("on" if got else "off")
    agrees = None if told is None or asked is FlashAttention.AUTO else asked.value == told
    return AskedGot("Flash attention", asked.value, told or NOT_TOLD, agrees)


def _draft_length(s: LaunchSettings, props: EngineProps) -> tuple[AskedGot, ...]:
    if s.speculation == "none":
        return ()
    got = None if props.adaptive_drafts is None else _DRAFTS[props.adaptive_drafts]
    return (_compare("Draft length", _DRAFTS[s.adaptive_drafts], got),)


_DRAFTS = {True: "adaptive", False: "fixed"}


def _yes(value: bool | None) -> str | None:
    return None if value is None else ("yes" if value else "no")


def _text(value: int | str | None, absent: str) -> str:
    if value is None:
        return absent
    return f"{value:,}" if isinstance(value, int) else value
