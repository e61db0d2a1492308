"""The engine's words for why a compute graph was built, as a person reads them."""

from __future__ import annotations

_PHRASES = {
    "reuse_off": "graph reuse is switched off",
    "no_previous": "no earlier graph to reuse",
    "output_switch": "from reading the prompt to answering, or back",
    "batch_shape": "another batch size",
    "sequences": "other conversations in the batch",
    "outputs": "another number of outputs",
    "samplers": "other samplers",
    "params": "other graph settings",
    "kv_grew": "attention spans more cache cells",
    "kv_shrank": "attention spans fewer cache cells",
    "inputs": "another input changed shape",
}


def rebuild_phrase(reason: str) -> str:
    """A short phrase; an unknown reason is shown in the engine's own words."""
    return _PHRASES.get(reason) or reason.replace("_", " ") or "no reason given"
