"""What may be launched and what may not: every refusal has a code, a sentence and a cure."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from known_models import (
    DEEPSEEK_V3,
    GEMMA3_4B,
    LLAMA31_8B,
    PLANAR3,
    QWEN36_27B,
    SMOLLM2,
    TBQ4,
    TCQ3,
    TCQ4,
    build,
    dense,
    entry,
    facts,
)
from kvarn.domain.launch.check_access import is_loopback
from kvarn.domain.launch.check_draft import Planning, check_draft
from kvarn.domain.launch.launch_plan import FlashAttention, LaunchDraft, LaunchSettings, PlanProblem, Severity
from kvarn.domain.library.model_entry import ModelProblem

FLAGS = frozenset({"--spec-type", "--mlock", "--spec-draft-model", "--temp"})
OFF = FlashAttention.OFF


def planned(model=SMOLLM2, engine=None, *, key=False, **settings) -> Planning:
    listed = model if not hasattr(model, "hparams") else entry(model)
    draft = LaunchDraft(model=listed, settings=LaunchSettings(**settings), has_api_key=key)
    return check_draft(draft, engine or build(TBQ4, PLANAR3, flags=FLAGS))


def only_problem(planning: Planning, severity=Severity.BLOCKS) -> PlanProblem:
    assert len(planning.problems) == 1, [p.code for p in planning.problems]
    (problem,) = planning.problems
    assert problem.severity is severity
    assert (planning.plan is None) == (severity is Severity.BLOCKS)
    return problem


def test_sensible_settings_become_a_plan_without_a_word():
    planning = planned(kv_k="q8_0", kv_v="q4_0", slots=2)
    assert planning.problems == ()
    assert planning.plan.total_context_tokens == 16384
    assert (planning.plan.model_path, planning.plan.alias) == (Path("/models/model.gguf"), "Model")


def test_the_projector_goes_along_unless_it_is_not_wanted():
    model = entry(SMOLLM2, mmproj=Path("/models/mmproj.gguf"), mmproj_bytes=10)
    assert planned(model).plan.mmproj == Path("/models/mmproj.gguf")
    assert planned(model, use_mmproj=False).plan.mmproj is None


BLOCKED = [
    # cache types
    ("tbq4_0 is not in a stock engine", {"engine": build(), "kv_k": "tbq4_0"}, "kv-type-not-offered", "kv_k"),
    ("names are case-sensitive", {"kv_v": "Q8_0"}, "kv-type-not-offered", "kv_v"),
    ("quantised V without flash attention", {"kv_v": "q4_0", "flash_attention": OFF}, "v-needs-flash-attention",
     "flash_attention"),
    ("quantised V on grok", {"model": dense("grok", 8, 8, 8, 128), "kv_v": "q8_0"}, "v-needs-flash-attention", "kv_v"),
    ("block 64 on heads of 96", {"model": dense("phi3", 32, 32, 32, 96), "kv_k": "tbq4_0"},
     "block-does-not-divide-head", "kv_k"),
    ("block 64 on heads of 96 without flash attention", {"model": dense("phi3", 32, 32, 32, 96), "kv_k": "tbq4_0",
     "flash_attention": OFF}, "block-does-not-divide-head", "kv_k"),
    ("block 64 on V heads of 96", {"model": dense("phi3", 32, 32, 32, 96), "kv_v": "planar3_0"},
     "block-does-not-divide-head", "kv_v"),
    ("block 32 on heads of 80", {"model": dense("phi2", 32, 32, 32, 80), "kv_k": "q8_0"}, "block-does-not-divide-head",
     "kv_k"),
    ("a rotated type on the latent row", {"model": DEEPSEEK_V3, "kv_k": "tbq4_0", "kv_v": "tbq4_0"},
     "mla-not-rotated", "kv_k"),
    ("MLA with two types", {"model": DEEPSEEK_V3, "kv_k": "q8_0", "kv_v": "f16"}, "mla-types-differ", "kv_v"),
    # numbers
    ("context 0", {"context_tokens": 0}, "context-tokens-out-of-range", "context_tokens"),
    ("context negative", {"context_tokens": -4096}, "context-tokens-out-of-range", "context_tokens"),
    ("context of four thousand million", {"context_tokens": 4_000_000_000}, "context-tokens-out-of-range",
     "context_tokens"),
    ("too much in all", {"context_tokens": 1 << 24, "slots": 256}, "context-tokens-out-of-range", "context_tokens"),
    ("no slot", {"slots": 0}, "slots-out-of-range", "slots"),
    ("too many slots", {"slots": 257}, "slots-out-of-range", "slots"),
    ("no batch", {"batch_tokens": 0}, "batch-tokens-out-of-range", "batch_tokens"),
    ("padding beyond the engine's", {"kv_pad": 65536}, "kv-pad-out-of-range", "kv_pad"),
    ("padding between two steps", {"kv_pad": 300}, "kv-pad-not-a-multiple", "kv_pad"),
    ("the padding twice", {"extra_args": ("--kv-pad", "512")}, "argument-duplicates-setting", "extra_args"),
    ("negative micro-batch", {"ubatch_tokens": -1}, "ubatch-tokens-out-of-range", "ubatch_tokens"),
    ("no thread", {"threads": 0}, "threads-out-of-range", "threads"),
    ("a million threads", {"threads": 1_000_000}, "threads-out-of-range", "threads"),
    ("negative GPU layers", {"gpu_layers": -1}, "gpu-layers-out-of-range", "gpu_layers"),
    # access
    ("port 0", {"port": 0}, "port-out-of-range", "port"),
    ("port 65536", {"port": 65536}, "port-out-of-range", "port"),
    ("open to all without a key", {"host": "0.0.0.0"}, "lan-without-key", "host"),
    ("open over IPv6 without a key", {"host": "::"}, "lan-without-key", "host"),
    ("a mistyped address", {"host": "127.0.0.256"}, "host-not-valid", "host"),
    ("no address", {"host": ""}, "host-not-valid", "host"),
    ("an option as address", {"host": "--api-key"}, "host-not-valid", "host"),
    ("two lines as name", {"alias": "a\nb"}, "alias-not-valid", "alias"),
    # speculation and arguments
    ("a kind that does not exist", {"speculation": "mtp"}, "speculation-unknown", "speculation"),
    ("no prediction block", {"speculation": "draft-mtp"}, "no-prediction-block", "speculation"),
    ("no draft model", {"speculation": "draft-simple"}, "no-draft-model", "speculation"),
    ("an engine without it", {"speculation": "ngram-simple", "engine": build(flags=frozenset({"--mlock"}))},
     "speculation-not-offered", "speculation"),
    ("a key in the arguments", {"extra_args": ("--api-key", "secret")}, "secret-in-arguments", "extra_args"),
    ("a key in one word", {"extra_args": ("--api-key=secret",)}, "secret-in-arguments", "extra_args"),
    ("a token in the arguments", {"extra_args": ("-hft", "secret")}, "secret-in-arguments", "extra_args"),
    ("the context twice", {"extra_args": ("-c", "1")}, "argument-duplicates-setting", "extra_args"),
    ("the port twice", {"extra_args": ("--port=1",)}, "argument-duplicates-setting", "extra_args"),
    ("a key file of one's own", {"extra_args": ("--api-key-file", "x")}, "argument-duplicates-setting", "extra_args"),
    ("an argument the engine lacks", {"extra_args": ("--mlok",)}, "argument-not-offered", "extra_args"),
    ("control characters", {"extra_args": ("a\0b",)}, "argument-not-printable", "extra_args"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "code", "field"), [b[1:] for b in BLOCKED], ids=[b[0] for b in BLOCKED])
def test_what_the_engine_would_refuse_is_refused_here_with_its_field(settings, code, field):
    problem = only_problem(planned(**settings))
    assert (problem.code, problem.field) == (code, field)
    assert problem.message.endswith(".")
    assert problem.remedy.endswith((".", "?"))


@pytest.mark.parametrize(
    ("settings", "remedy"),
    [
        ({"kv_k": "Q8_0"}, "Did you mean q8_0?"),
        ({"kv_k": "q8-0"}, "Did you mean q8_0?"),
        ({"kv_k": "tbq4_0", "engine": build()}, "Did you mean q4_0?"),
        ({"kv_k": "turbo"}, "Choose one of f32, f16, bf16"),
        ({"speculation": "mtp"}, "Did you mean draft-mtp?"),
        ({"extra_args": ("--mlok",)}, "Did you mean --mlock?"),
        ({"model": dense("phi3", 32, 32, 32, 96), "kv_k": "tbq4_0"}, "Choose q4_0 or q8_0."),
        ({"model": dense("phi2", 32, 32, 32, 80), "kv_k": "q8_0"}, "Choose f16."),
        ({"context_tokens": 0}, "Choose between 1 and 8,192 tokens."),
    ],
)
def test_remedies_name_the_way_out(settings, remedy):
    assert only_problem(planned(**settings)).remedy.startswith(remedy)


WARNED = [
    ({"context_tokens": 16384}, "context-above-training"),
    ({"context_tokens": 1_000_000}, "context-above-training"),
    ({"context_tokens": 1000}, "context-rounded"),
    ({"slots": 2, "kv_unified": True}, "slots-share-context"),
    ({"batch_tokens": 256}, "ubatch-above-batch"),
    ({"gpu_layers": 10}, "no-gpu-backend"),
    ({"port": 80}, "port-privileged"),
    ({"engine": build(backends=("CPU", "CUDA")), "kv_k": "q8_0", "kv_v": "q4_0"}, "kv-may-run-on-cpu"),
    ({"engine": build(backends=("CPU", "CUDA")), "kv_k": "q5_1", "kv_v": "q5_1"}, "kv-may-run-on-cpu"),
    (
        {"engine": build(TBQ4, PLANAR3, backends=("CPU", "CUDA")), "kv_k": "planar3_0", "kv_v": "tbq4_0"},
        "kv-may-run-on-cpu",
    ),
]


@pytest.mark.parametrize(("settings", "code"), WARNED, ids=[code for _, code in WARNED])
def test_what_is_merely_unwise_warns_and_can_be_launched(settings, code):
    assert only_problem(planned(**settings), Severity.WARNS).code == code


ALLOWED = [
    {"kv_k": "q4_0", "flash_attention": OFF},
    {"kv_k": "tbq4_0", "kv_v": "planar3_0"},
    {"model": LLAMA31_8B, "kv_k": "tbq4_0", "kv_v": "planar3_0"},
    {"model": GEMMA3_4B, "kv_k": "tbq4_0", "kv_v": "tbq4_0"},
    {"model": DEEPSEEK_V3, "kv_k": "q8_0", "kv_v": "q8_0"},
    {"model": QWEN36_27B, "speculation": "draft-mtp"},
    {"speculation": "draft-simple", "extra_args": ("--spec-draft-model", "/models/small.gguf")},
    {"host": "0.0.0.0", "key": True},
    {"host": "localhost"},
    {"host": "::1"},
    {"extra_args": ("--mlock", "--temp", "-1")},
    {"engine": build(backends=("CPU", "CUDA")), "kv_k": "q8_0", "kv_v": "q4_0", "gpu_layers": 0},
    {"engine": build(TBQ4, PLANAR3, backends=("CPU", "CUDA")), "kv_k": "q8_0", "kv_v": "planar3_0"},
    {"engine": build(TBQ4, PLANAR3, backends=("CPU", "CUDA")), "kv_k": "tbq4_0", "kv_v": "tbq4_0"},
    {"slots": 4, "kv_unified": False},
    {"context_tokens": 16384, "slots": 1, "model": LLAMA31_8B},
]


@pytest.mark.parametrize("settings", ALLOWED, ids=lambda s: ", ".join(f"{k}={v}" for k, v in s.items())[:60])
def test_what_the_engine_accepts_is_not_held_back(settings):
    planning = planned(**settings)
    assert planning.plan is not None
    assert [p.code for p in planning.problems if p.severity is Severity.BLOCKS] == []


@pytest.mark.parametrize("kv_v", ["tbq4_0", "planar3_0", "tcq4_0", "tcq3_0"])
def test_pairs_that_have_a_cuda_kernel_bring_no_warning(kv_v):
    engine = build(TBQ4, PLANAR3, TCQ4, TCQ3, backends=("CPU", "CUDA"))
    own = {"planar3_0": "tbq4_0", "tcq3_0": "tcq4_0"}.get(kv_v, kv_v)
    for kv_k in ("q8_0", own, kv_v):
        assert planned(engine=engine, kv_k=kv_k, kv_v=kv_v).problems == ()


def test_a_shared_pool_may_be_larger_than_the_training_of_one_slot():
    codes = [p.code for p in planned(context_tokens=16384, slots=2, kv_unified=True).problems]
    assert codes == ["slots-share-context"]


def test_models_that_cannot_be_served_say_why():
    assert only_problem(check_draft(LaunchDraft(model=None, settings=LaunchSettings()), build())).code == "no-model"
    assert only_problem(planned(entry(facts("clip")))).code == "projector"
    broken = entry(None, problem=ModelProblem("truncated", "The file ends too early."))
    assert only_problem(planned(broken)).message == "The file ends too early."
    assert only_problem(planned(entry(None))).code == "model-not-read"


def test_without_an_engine_nothing_can_be_launched():
    planning = check_draft(LaunchDraft(model=entry(SMOLLM2), settings=LaunchSettings()), None)
    assert only_problem(planning).code == "no-engine"


def test_several_problems_are_told_at_once():
    codes = {p.code for p in planned(kv_k="Q8_0", context_tokens=-1, port=0, extra_args=("--api-key=x",)).problems}
    assert codes == {
        "kv-type-not-offered",
        "context-tokens-out-of-range",
        "port-out-of-range",
        "secret-in-arguments",
    }


def test_no_problem_repeats_a_secret():
    planning = planned(extra_args=("--api-key=hunter2", "--hf-token", "hunter2"))
    assert "hunter2" not in str(planning.problems)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("127.8.9.1", True), ("::1", True), ("[::1]", True), ("LOCALHOST", True),
     ("0.0.0.0", False), ("192.168.1.2", False), ("localhost.example.org", False)],
)  # fmt: skip
def test_loopback_is_told_from_the_network(host, loopback):
    assert is_loopback(host) is loopback


def test_settings_survive_into_the_plan_unchanged():
    settings = LaunchSettings(kv_k="q8_0", context_tokens=4096, extra_args=("--mlock",))
    planning = check_draft(LaunchDraft(model=entry(SMOLLM2), settings=settings), build())
    assert msgspec.json.encode(planning.plan.settings) == msgspec.json.encode(settings)
