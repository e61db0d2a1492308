"""From a model's header to the layers that keep something in memory, exactly as the engine counts them.

Source: llama-hparams.cpp (`n_embd_k_gqa`, `n_embd_r`, `n_embd_s`), `llama_model::create_memory` and
`load_hparams` of the pinned base. What we do not understand becomes an `UnknownLayout`, never a number.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from kvarn.domain.launch import architectures as arch
from kvarn.domain.library.model_facts import ModelFacts

MAX_LAYERS = 512
"""LLAMA_MAX_LAYERS of the pinned base; more abort the engine."""
_SANE = 1 << 24
"""Upper bound of any head count or row width we believe."""


class KvGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Layers of equal shape. Rows are values per token and layer; `v_row` 0 means V is not stored."""

    layers: int
    is_window: bool
    k_row: int
    v_row: int


class AttentionLayout(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about a model that decides how many bytes a context takes."""

    kv: tuple[KvGroup, ...]
    mtp: tuple[KvGroup, ...] = ()
    """Layers of the multi-token-prediction block: cached only while it drafts."""
    window_tokens: int = 0
    v_row_max: int = 0
    """Widest V row over all layers: every row is padded to it when flash attention is off."""
    recurrent_layers: int = 0
    recurrent_row: int = 0
    """float32 values of state per recurrent layer and sequence."""
    is_mla: bool = False
    rolls_back: bool = False
    k_head_sizes: tuple[int, ...] = ()
    v_head_sizes: tuple[int, ...] = ()


class UnknownLayout(msgspec.Struct, frozen=True):
    """Why no estimate can be given, as one sentence."""

    reason: str


class _Odd(Exception):
    """A header that does not describe a cache we understand."""


def attention_layout(facts: ModelFacts) -> AttentionLayout | UnknownLayout:
    """Read the layers off a header. Never raises on odd headers; pure and fast (one pass over the layers)."""
    try:
        return _Header(facts).layout()
    except _Odd as odd:
        return UnknownLayout(str(odd))


class _Header:
    """The header's numbers, checked, with the engine's own defaults."""

    def __init__(self, facts: ModelFacts) -> None:
        self.arch = facts.architecture
        self._hparams = facts.hparams
        if self.arch not in arch.KNOWN:
            raise _Odd(f"Kvarn does not know how models of architecture “{self.arch}” lay out their cache.")
        self.layers_all = self.number("block_count", low=1, high=MAX_LAYERS)
        self.mtp_layers = self.number("nextn_predict_layers", 0, high=self.layers_all)
        loops = self.number("num_loops", 1, low=1, high=MAX_LAYERS) if self.arch == "nanbeige" else 1
        self.heads = self.per_layer("attention.head_count", (0,) * self.layers_all) * loops
        self.kv_heads = self.per_layer("attention.head_count_kv", self.heads[: self.layers_all]) * loops
        self.layers_all *= loops
        if self.layers_all > MAX_LAYERS:
            raise _Odd(f"The header asks for {self.layers_all} layers; the engine takes at most {MAX_LAYERS}.")

    @property
    def layers(self) -> int:
        """Layers of the main pass, without the prediction block."""
        return self.layers_all - self.mtp_layers

    def number(self, key: str, default: int | None = None, *, low: int = 0, high: int = _SANE) -> int:
        """One whole number within bounds. Without a default it must be there."""
        value = self._hparams.get(key, default)
        if value is None:
            raise _Odd(f"The header lacks “{key}”, which the estimate needs.")
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise _Odd(f"The header gives “{key}” as {str(value)[:40]}, which cannot be right.")
        return value

    def per_layer(self, key: str, default: tuple[int, ...] | None) -> tuple[int, ...]:
        """One number per layer, from an array of exactly that length or one number for all."""
        value = self._hparams.get(key)
        if value is None and default is not None:
            return default
        if not isinstance(value, tuple):
            return (self.number(key),) * self.layers_all
        if len(value) != self.layers_all or not all(isinstance(v, int) and 0 <= v <= _SANE for v in value):
            raise _Odd(f"The header's “{key}” does not hold one sensible number for each of {self.layers_all} layers.")
        return tuple(int(v) for v in value)

    def layout(self) -> AttentionLayout:
        """Put the layers together."""
        if self.arch in arch.NO_CACHE:
            return AttentionLayout(kv=())
        recurrent = self._recurrent_layers()
        row = self._recurrent_row() if any(recurrent[: self.layers]) else 0
        if self.arch in arch.RECURRENT:
            return AttentionLayout(kv=(), recurrent_layers=self.layers, recurrent_row=row)
        return self._with_attention(recurrent, row)

    def _with_attention(self, recurrent: tuple[bool, ...], recurrent_row: int) -> AttentionLayout:
        window_tokens, windows = self._windows(recurrent)
        sizes = {kind: self._head_sizes(kind) for kind in set(windows)}
        is_mla = self._is_mla()
        rows = [(k * n, v * n) for (k, v), n in zip([sizes[w] for w in windows], self.kv_heads, strict=True)]
        groups = [
            KvGroup(layers=1, is_window=w, k_row=k, v_row=0 if is_mla else v)
            for w, (k, v) in zip(windows, rows, strict=True)
        ]
        main, mtp = self._cached_layers(recurrent)
        kv = _grouped([groups[il] for il in main])
        if not kv:
            raise _Odd("The header describes attention without any K/V heads.")
        return AttentionLayout(
            kv=kv,
            mtp=_grouped([groups[il] for il in mtp]),
            window_tokens=window_tokens,
            v_row_max=0 if is_mla else max(v for _, v in rows),
            recurrent_layers=sum(recurrent[: self.layers]),
            recurrent_row=recurrent_row,
            is_mla=is_mla,
            rolls_back=self.arch in arch.ROLLBACK,
            k_head_sizes=tuple(sorted({k for k, _ in sizes.values()})),
            v_head_sizes=tuple(sorted({v for _, v in sizes.values()})),
        )

    def _cached_layers(self, recurrent: tuple[bool, ...]) -> tuple[list[int], list[int]]:
        """Indices of layers with K/V in the main context and in the prediction block's own context."""
        every = range(self.layers_all)
        block = list(range(self.layers, self.layers_all))
        if self.arch == "falcon-h1":
            return list(every), []
        if self.arch in arch.NEMOTRON:
            feed_forward = self.per_layer("feed_forward_length", (0,) * self.layers_all)
            return [il for il in every if not recurrent[il] and not feed_forward[il]], block
        if self.arch in arch.ZERO_HEADS:
            return [il for il in every if not recurrent[il]], block if self.arch == "bailingmoe3" else []
        shared_from = self._first_shared_layer()
        main = [il for il in every if il < min(self.layers or self.layers_all, shared_from) and not recurrent[il]]
        return main, [il for il in block if il < shared_from] if self.layers else []

    def _first_shared_layer(self) -> int:
        """Layers from here on read an earlier layer's K/V."""
        if self.arch == "gemma3n":
            return 20
        if self.arch == "gemma4":
            return self.layers_all - self.number("attention.shared_kv_layers", 0, high=self.layers_all)
        return self.layers_all

    def _recurrent_layers(self) -> tuple[bool, ...]:
        every = range(self.layers_all)
        if self.arch in arch.RECURRENT or self.arch == "falcon-h1":
            return (True,) * self.layers_all
        if self.arch in arch.INTERVAL:
            if "attention.recurrent_layers" in self._hparams:
                return tuple(bool(flag) for flag in self.per_layer("attention.recurrent_layers", None))
            interval = self.number("full_attention_interval", arch.INTERVAL[self.arch], low=1)
            return tuple(il < self.layers and (il + 1) % interval != 0 for il in every)
        if self.arch in arch.NEMOTRON:
            feed_forward = self.per_layer("feed_forward_length", (0,) * self.layers_all)
            return tuple(il < self.layers and not self.kv_heads[il] and not feed_forward[il] for il in every)
        if self.arch in arch.ZERO_HEADS:
            return tuple(il < self.layers and not self.kv_heads[il] for il in every)
        return (False,) * self.layers_all

    def _recurrent_row(self) -> int:
        """float32 values per layer and sequence: rolling (convolution or token shift) plus state."""
        embd = self.number("embedding_length", low=1)
        if "wkv.head_size" in self._hparams:
            return self.number("token_shift_count", 2) * embd + embd * self.number("wkv.head_size", low=1)
        if self.arch in {"lfm2", "lfm2moe"}:
            return embd * (self.number("shortconv.l_cache", low=1) - 1)
        if "kda.head_dim" in self._hparams:
            size, kernel = self.number("kda.head_dim", low=1), self.number("ssm.conv_kernel", 0)
            return 3 * (kernel - 1 if kernel else 3) * self.heads[0] * size + size * size * self.heads[0]
        if self.arch == "minimax-01":
            return self._head_sizes(False)[0] ** 2 * self.heads[0]
        inner, state = self.number("ssm.inner_size", low=1), self.number("ssm.state_size", low=1)
        groups = 0 if self.arch in arch.NO_GROUPS else self.number("ssm.group_count", 0)
        channels = inner + 2 * groups * state
        return (self.number("ssm.conv_kernel", low=1) - 1) * channels + state * inner

    def _head_sizes(self, is_window: bool) -> tuple[int, int]:
        """Values of one K head and one V head."""
        if not self.heads[0]:
            raise _Odd("The header gives no number of attention heads.")
        even = self.number("embedding_length", low=1) // self.heads[0]
        full = {kind: self.number(f"attention.{kind}_length", even) for kind in ("key", "value")}
        if is_window:
            full = {kind: self.number(f"attention.{kind}_length_swa", full[kind]) for kind in full}
        return full["key"], full["value"]

    def _is_mla(self) -> bool:
        if self.arch not in arch.MLA:
            return False
        return all(self.number(f"attention.{kind}_length_mla", 0) for kind in ("key", "value"))

    def _windows(self, recurrent: tuple[bool, ...]) -> tuple[int, tuple[bool, ...]]:
        """Window in tokens and, per layer, whether it sees only that."""
        nowhere = (False,) * self.layers_all
        if self.arch == "lfm2" and (window := self.number("attention.sliding_window", 0)):
            return window, tuple(il < self.layers and not recurrent[il] for il in range(self.layers_all))
        rule = arch.WINDOWED.get(self.arch)
        if rule is None or (self.arch == "exaone4" and self.layers != 64):
            return 0, nowhere
        window = self._window_tokens(rule)
        if not window:
            return 0, nowhere
        windows = self._window_pattern(rule)
        if not any(windows):
            raise _Odd("The header names a sliding window but no layer that uses it.")
        return window, windows

    def _window_tokens(self, rule: arch.WindowRule) -> int:
        absent = rule.absent_window
        window = self.number("attention.sliding_window", None if absent == arch.REQUIRED else absent or 0)
        if not window and absent == arch.REQUIRED:
            raise _Odd("The header gives a sliding window of 0 tokens.")
        return rule.fixed_window if rule.fixed_window and window else window

    def _window_pattern(self, rule: arch.WindowRule) -> tuple[bool, ...]:
        given = self._hparams.get("attention.sliding_window_pattern")
        if isinstance(given, tuple):
            flags = [bool(flag) for flag in given[: self.layers_all]]
            return tuple(flags + [False] * (self.layers_all - len(flags)))
        if rule.period is None:
            raise _Odd("The header does not say which layers use the sliding window.")
        n = self.number("attention.sliding_window_pattern", rule.period)
        return tuple(il < self.layers and _in_window(il, n, rule.dense_first) for il in range(self.layers_all))


def _in_window(layer: int, period: int, dense_first: bool) -> bool:
    if not period:
        return True
    return layer % period != 0 if dense_first else layer % period < period - 1


def _grouped(layers: list[KvGroup]) -> tuple[KvGroup, ...]:
    """Equal layers put together, full ones first; layers without K/V heads take nothing and are left out."""
    counts = Counter(layer for layer in layers if layer.k_row)
    groups = [msgspec.structs.replace(layer, layers=n) for layer, n in counts.items()]
    return tuple(sorted(groups, key=lambda g: (g.is_window, -g.k_row, -g.v_row)))
