"""When a launch does not fit, the context that would is named, and it does fit."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from known_models import GEMMA3_4B, LLAMA31_8B, MIB, TYPES, dense, entry, tensors
from kvarn.domain.launch.estimate import estimate_budget
from kvarn.domain.launch.fit_context import fit_problem, largest_context
from kvarn.domain.launch.launch_plan import LaunchSettings

F16 = TYPES["f16"]
MODEL = entry(msgspec.structs.replace(LLAMA31_8B, tensors=tensors(5000 * MIB)))
WINDOWED = entry(msgspec.structs.replace(GEMMA3_4B, tensors=tensors(3000 * MIB)))


@given(st.sampled_from([MODEL, WINDOWED]), st.integers(1, 4), st.booleans(), st.integers(0, 60_000))
def test_the_named_context_fits_and_one_step_more_does_not(model, slots, unified, free_mib):
    settings = LaunchSettings(slots=slots, kv_unified=unified)
    most = largest_context(model, settings, F16, F16, free_mib * MIB)

    def fits(tokens: int) -> bool:
        asked = msgspec.structs.replace(settings, context_tokens=tokens)
        return estimate_budget(model, asked, F16, F16, free_bytes=free_mib * MIB).fits

    assert most == 0 or fits(most)
    assert not fits(most + 256)


def test_a_launch_that_fits_is_no_problem_and_one_that_does_not_names_the_way_out():
    settings = LaunchSettings(context_tokens=131072)
    fits = estimate_budget(MODEL, settings, F16, F16, free_bytes=100_000 * MIB)
    assert fit_problem(fits, MODEL, settings, F16, F16) is None
    tight = estimate_budget(MODEL, settings, F16, F16, free_bytes=10_000 * MIB)
    problem = fit_problem(tight, MODEL, settings, F16, F16)
    most = largest_context(MODEL, settings, F16, F16, 10_000 * MIB)
    assert f"At most {most:,} tokens fit" in problem.remedy
    assert "9.8 GiB are free" in problem.message


def test_where_all_that_was_trained_fits_that_is_the_way_out():
    settings = LaunchSettings(context_tokens=1 << 24)
    tight = estimate_budget(MODEL, settings, F16, F16, free_bytes=60_000 * MIB)
    remedy = fit_problem(tight, MODEL, settings, F16, F16).remedy
    assert remedy == "The 131,072 tokens that the model was trained for do fit."


def test_where_slots_share_as_much_as_all_of_them_use_no_model_was_trained_for_that():
    settings = LaunchSettings(context_tokens=1 << 24, slots=2, kv_unified=True)
    tight = estimate_budget(MODEL, settings, F16, F16, free_bytes=60_000 * MIB)
    assert fit_problem(tight, MODEL, settings, F16, F16).remedy == "The 262,144 tokens that are of use do fit."


def test_an_unknown_layout_or_hopeless_memory_names_no_context():
    odd = entry(dense("qa-made-up", 2, 2, 2, 64))
    assert largest_context(odd, LaunchSettings(), F16, F16, 1 << 40) is None
    hopeless = estimate_budget(MODEL, LaunchSettings(), F16, F16, free_bytes=MIB)
    assert "At most" not in fit_problem(hopeless, MODEL, LaunchSettings(), F16, F16).remedy
