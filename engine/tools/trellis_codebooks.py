#!/usr/bin/env python3
"""Derive the levels of tcq4_0 and tcq3_0 and print them as the macros of overlay/ggml/src/kvarn-kv-trellis.h.

A generalised Lloyd iteration: encode Gaussian blocks with the exact tail-biting Viterbi search the engine uses, move
each level to the mean of the values it stands for, repeat. Then the number of level units in a standard deviation is
chosen together with the rounding to int8, for the least squared error of whole blocks whose norm is kept.
Needs numpy; takes a few minutes; the seed is fixed, so it prints the same numbers each time.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

BLOCK = 128
ROUNDS = 60
FRACTION = 16
"""Values are rounded to 1/FRACTION of a level before the search, so that every implementation takes the same path."""

Array = np.ndarray


@dataclass(frozen=True)
class Code:
    """A trellis of four states: the trellis bits of the two values before. `chain` values form a ring."""

    name: str
    bits: int
    chain: int

    @property
    def ranks(self) -> int:
        """Levels of one subset; the trellis chooses the subset, the other bits the level in it."""
        return 1 << (self.bits - 1)


CODES = (Code("TCQ4", 4, 16), Code("TCQ3", 3, 32))


def search(code: Code, x: Array, levels: Array) -> Array:
    """Indices of the levels nearest to each row of x, a ring of values. Levels are [e][w][rank], ascending by rank.

    State n = u1 + 2*u2 holds the trellis bits of the last value and of the one before. A value with trellis bit u takes
    its level from subset e = u1, w = u ^ u2. All four first states are searched; a ring ends in the state it began in.
    """
    n = len(x)
    total = np.full((n, 4, 4), np.inf)
    total[:, range(4), range(4)] = 0.0
    state = np.arange(4)
    u, u1 = state & 1, state >> 1
    ranks = np.empty((code.chain, n, 2, 2), np.int8)
    from_one = np.empty((code.chain, n, 4, 4), bool)
    for t in range(code.chain):
        error = (x[:, t, None, None, None] - levels) ** 2
        ranks[t] = error.argmin(3)
        error = error.min(3)
        zero = total[:, :, u1] + error[:, None, u1, u]
        one = total[:, :, u1 + 2] + error[:, None, u1, u ^ 1]
        from_one[t] = one < zero
        total = np.minimum(zero, one)
    return _trace(code, ranks, from_one, total[:, range(4), range(4)].argmin(1))


def _trace(code: Code, ranks: Array, from_one: Array, start: Array) -> Array:
    rows = np.arange(len(start))
    state = start.copy()
    index = np.empty((len(start), code.chain), np.int64)
    for t in reversed(range(code.chain)):
        u, e = state & 1, state >> 1
        u2 = from_one[t, rows, start, state].astype(np.int64)
        w = u ^ u2
        index[:, t] = (e * 2 + w) * code.ranks + ranks[t, rows, e, w]
        state = e + 2 * u2
    return index


def blocks(seed: int, n: int) -> Array:
    """Gaussian blocks of unit variance, each scaled by its own norm as an encoder does."""
    x = np.random.default_rng(seed).standard_normal((n, BLOCK))
    return x * (math.sqrt(BLOCK) / np.linalg.norm(x, axis=1, keepdims=True))


def first_levels(code: Code) -> Array:
    """Gaussian quantiles dealt to the subsets in turn, in the order that suits a change of every sign."""
    n = 4 * code.ranks
    quantiles = np.array([NormalDist().inv_cdf((i + 0.5) / n) for i in range(n)])
    levels = np.empty((2, 2, code.ranks))
    for turn, (e, w) in enumerate(((1, 0), (0, 1), (1, 1), (0, 0))):
        levels[e, w] = quantiles[turn::4]
    return levels


def symmetric(levels: Array) -> Array:
    """A change of all trellis bits turns e and keeps w: the levels of e = 1 are those of e = 0 with the other sign."""
    half = (levels[0] - levels[1][:, ::-1]) / 2
    return np.stack((half, -half[:, ::-1]))


def lloyd(code: Code) -> Array:
    """Levels in standard deviations."""
    levels = first_levels(code)
    for number in range(ROUNDS):
        x = blocks(number, 1024 if number < ROUNDS // 2 else 4096).reshape(-1, code.chain)
        index = search(code, x, levels).ravel()
        count = np.bincount(index, minlength=levels.size)
        mean = np.bincount(index, x.ravel(), levels.size) / np.maximum(count, 1)
        levels = np.sort(symmetric(np.where(count > 0, mean, levels.ravel()).reshape(levels.shape)), axis=2)
    return levels


def block_error(code: Code, x: Array, levels: Array, per_sigma: float) -> tuple[float, float]:
    """Relative squared error of integer levels: with each block's norm kept, and with the scale of least squares."""
    wanted = np.rint(x * (per_sigma * FRACTION)).reshape(-1, code.chain)
    y = levels.ravel()[search(code, wanted, levels * FRACTION)].reshape(x.shape)
    kept = y * (math.sqrt(BLOCK) / np.linalg.norm(y, axis=1, keepdims=True))
    least = y * (np.sum(x * y, 1) / np.sum(y * y, 1))[:, None]
    return float(np.mean((x - kept) ** 2)), float(np.mean((x - least) ** 2))


def rounded(code: Code, levels: Array) -> tuple[Array, float]:
    """Integer levels, and how many of their units make one standard deviation."""
    x = blocks(1000, 4096)
    most = 127.4 / np.abs(levels).max()
    choices = [
        (np.rint(levels * unit), unit * tilt)
        for unit in np.linspace(most * 0.9, most, 12)
        for tilt in (0.995, 1.0, 1.005)
    ]
    return min(choices, key=lambda choice: block_error(code, x, *choice)[0])


def main() -> None:
    """Print both codes."""
    for code in CODES:
        exact = lloyd(code)
        levels, per_sigma = rounded(code, exact)
        per_sigma = round(per_sigma, 2)
        kept, least = block_error(code, blocks(2000, 20000), levels, per_sigma)
        limit = 65504 / np.abs(levels).max()
        print(f"// relative error {kept:.5f} with the norm kept, {least:.5f} with least squares")
        table = levels.transpose(0, 1, 2).reshape(-1, code.ranks).astype(int)
        for row in table:
            print("   ", ", ".join(f"{value:4}" for value in row) + ", \\")
        print(f"#define KVARN_{code.name}_PER_SIGMA {per_sigma}f")
        print(f"#define KVARN_{code.name}_D_MAX {math.floor(limit * 2) / 2}f", flush=True)


if __name__ == "__main__":
    sys.exit(main())
