"""How far one next-token distribution is from another, from their logits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

Logits = npt.NDArray[np.float32]
"""Shape (tokens, vocabulary)."""
_VALUES_AT_A_TIME = 1 << 19


def log_softmax(logits: Logits) -> Logits:
    """Along the vocabulary, in float32 with the largest taken off first."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    total = np.exp(shifted).sum(axis=1, keepdims=True, dtype=np.float64)
    return np.asarray(shifted - np.log(total).astype(np.float32))


def divergences(base: Logits, other: Logits) -> npt.NDArray[np.float64]:
    """KLD of each token in nats, shape (tokens,): the sum of p·(ln p − ln q), p what `base` says."""
    found = np.empty(len(base))
    for rows in _rows_at_a_time(base):
        log_p, log_q = log_softmax(base[rows]), log_softmax(other[rows])
        found[rows] = np.einsum("tv,tv->t", np.exp(log_p), log_p - log_q, dtype=np.float64)
    return found


def _rows_at_a_time(logits: Logits) -> Iterator[slice]:
    """Few enough that what is computed on the way is memory used again, not asked of the kernel each time, which takes
    longer than computing."""
    step = max(1, _VALUES_AT_A_TIME // logits.shape[1])
    return (slice(start, start + step) for start in range(0, len(logits), step))


def same_first_choice(base: Logits, other: Logits) -> npt.NDArray[np.bool_]:
    """Where both think the same token most likely, shape (tokens,)."""
    return np.asarray(base.argmax(axis=1) == other.argmax(axis=1))
