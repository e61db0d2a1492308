"""KLD from logits, against the definition in double precision."""

from __future__ import annotations

import numpy as np

from kvarn.domain.compare.divergence import divergences, same_first_choice


def softmax(logits):
    wide = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return wide / wide.sum(axis=1, keepdims=True)


def test_the_definition():
    noise = np.random.default_rng(1)
    base = noise.normal(0, 5, (40, 3000)).astype(np.float32)
    other = (base + noise.normal(0, 0.5, base.shape)).astype(np.float32)
    p, q = softmax(base), softmax(other)
    np.testing.assert_allclose(divergences(base, other), (p * np.log(p / q)).sum(axis=1), rtol=1e-3, atol=1e-6)


def test_a_distribution_is_not_away_from_itself_whatever_is_added_to_all_logits():
    base = np.random.default_rng(2).normal(0, 5, (10, 500)).astype(np.float32)
    assert np.all(divergences(base, base) == 0)
    assert np.all(np.abs(divergences(base, base + np.float32(100))) < 1e-4)
    assert same_first_choice(base, base).all()


def test_logits_that_would_overflow_do_not():
    base = np.array([[1e4, -1e4, 0.0]], dtype=np.float32)
    assert np.isfinite(divergences(base, base * np.float32(0.9))).all()
