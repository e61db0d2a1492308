"""Rotated cache types in a running engine: sensible answers, exact sizes, refusals where rotation is not assured."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gguf_maker import GgufMaker

pytestmark = pytest.mark.engine

TEXT = (
    "The capital of France is Paris. The capital of Italy is Rome. The capital of Spain is Madrid. "
    "The capital of Germany is Berlin. The capital of Japan is"
)

# One token's distance says little about a model this small: the mean over these does.
TEXTS = (
    TEXT,
    "One two three four five six seven eight nine ten eleven twelve thirteen fourteen",
    "Water is made of hydrogen and oxygen. Salt is made of sodium and",
    "Monday, Tuesday, Wednesday, Thursday, Friday, Saturday and",
    "To be, or not to be, that is the",
    "The quick brown fox jumps over the lazy",
)


def cache(kv_k: str, kv_v: str | None = None) -> tuple[str, ...]:
    return ("-c", "512", "-np", "1", "-fa", "on", "-ctk", kv_k, "-ctv", kv_v or kv_k)


Likely = dict[str, float]


def probabilities(server) -> list[Likely]:
    """The likeliest next tokens after each of TEXTS, generated one at a time so that the cache is read back."""
    steps = (server.complete(text, n_predict=4, n_probs=20)["completion_probabilities"][0] for text in TEXTS)
    return [{top["token"]: math.exp(top["logprob"]) for top in step["top_logprobs"]} for step in steps]


def distance(want: Likely, close: Likely) -> float:
    """Total variation over the tokens that an exact cache finds likely."""
    return sum(abs(p - close.get(token, 0.0)) for token, p in want.items()) / 2


@pytest.fixture(scope="module")
def exact(start_server, request):
    """What each model answers with an f16 cache, asked once."""
    known: dict[str, list[Likely]] = {}

    def of(model_name: str) -> list[Likely]:
        if model_name not in known:
            with start_server(*cache("f16"), model=request.getfixturevalue(model_name)) as server:
                known[model_name] = probabilities(server)
        return known[model_name]

    return of


@pytest.mark.parametrize(
    ("model_name", "kv_k", "kv_v"),
    [
        ("starter_model", "tbq4_0", "tbq4_0"),
        ("starter_model", "q8_0", "planar3_0"),
        ("gemma_model", "tbq4_0", "tbq4_0"),
        ("gemma_model", "tbq4_0", "planar3_0"),
        ("starter_model", "tcq4_0", "tcq4_0"),
        ("starter_model", "q8_0", "tcq3_0"),
        ("gemma_model", "tcq4_0", "tcq3_0"),
    ],
)
def test_the_next_tokens_are_nearly_those_of_an_exact_cache(start_server, request, exact, model_name, kv_k, kv_v):
    model = request.getfixturevalue(model_name)
    with start_server(*cache(kv_k, kv_v), "-lv", "4", model=model) as server:  # 4: libllama's own lines too
        close = probabilities(server)
        facts = server.http.get("/props").json()["kvarn"]
        text = server.complete(TEXT, n_predict=8)["content"]
    distances = [distance(want, got) for want, got in zip(exact(model_name), close, strict=True)]
    assert sum(distances) / len(distances) < 0.25, distances
    assert "Tokyo" in text
    assert (facts["kv_k"], facts["kv_v"]) == (kv_k, kv_v)
    half = model_name == "starter_model"
    assert facts["kv_v_bits"] == {"tbq4_0": 4.125, "planar3_0": 3.125, "tcq4_0": 4.125, "tcq3_0": 3.125}[kv_v] + (
        0.125 if half else 0
    )
    assert facts["kv_v_block_values"] == (64 if half else 128)
    said = server.log.read_text(errors="replace")
    assert f"V cache {kv_v}: blocks of {64 if half else 128}" in said


@pytest.mark.parametrize(("kv_k", "kv_v"), [("tbq4_0", "planar3_0"), ("tcq4_0", "tcq3_0")])
def test_a_long_answer_goes_on_after_the_context_shifted(start_server, kv_k, kv_v):
    options = ("-c", "256", "-np", "1", "-ctk", kv_k, "-ctv", kv_v, "-fa", "on", "--context-shift")
    with start_server(*options) as server:
        answer = server.complete(TEXT * 6, n_predict=80, ignore_eos=True)
        assert answer["tokens_predicted"] == 80
        assert answer["truncated"] is True
        assert "capital" in answer["content"][-150:]


def refused(engine_dir: Path, model: Path, *options: str, env: dict[str, str] | None = None) -> str:
    """What llama-server says when it does not start. Fails if it starts."""
    program = engine_dir / ("llama-server.exe" if sys.platform == "win32" else "llama-server")
    command = [str(program), "-m", str(model), "--host", "127.0.0.1", "--port", "0", "-t", "1", "-c", "256", *options]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, env=os.environ | (env or {}), check=False
    )
    assert done.returncode == 1, done.returncode
    return (done.stdout + done.stderr).decode(errors="replace")


@pytest.mark.parametrize(
    ("options", "side"),
    [
        (("-ctk", "tbq4_0"), "K"),
        (("-ctv", "planar3_0", "-fa", "on"), "V"),
        (("-ctk", "tcq4_0"), "K"),
        (("-ctv", "tcq3_0", "-fa", "on"), "V"),
    ],
)
def test_a_cache_is_refused_when_rotation_is_switched_off(engine_dir, engine_build_info, starter_model, options, side):
    said = refused(engine_dir, starter_model, *options, env={"LLAMA_ATTN_ROT_DISABLE": "1"})
    assert f"{side} cache type {options[1]} stores rotated values only" in said
    assert "LLAMA_ATTN_ROT_DISABLE" in said


@pytest.mark.parametrize(("embd", "works"), [(192, "q4_0, q5_0, q8_0, bf16, f16"), (160, "bf16, f16")])
def test_other_head_sizes_are_refused_with_the_types_that_work(engine_dir, engine_build_info, tmp_path, embd, works):
    model = GgufMaker.llama(embd=embd, heads=2, kv_heads=1).with_weights().write(tmp_path / "odd.gguf")
    said = refused(engine_dir, model, "-ctk", "tbq4_0")
    assert f"needs heads of a multiple of 64 values, and this model has heads of {embd // 2}" in said
    assert f"these types work: {works}\n" in said.replace("\r", "")


def slot(server, action: str, name: str = "saved.bin"):
    return server.http.post(f"/slots/0?action={action}", json={"filename": name})


@pytest.fixture(scope="module")
def saved(start_server, tmp_path_factory):
    """A server's options for this folder of saved slots, after one with a tbq4_0 cache saved its answer there."""
    folder = ("--slot-save-path", f"{tmp_path_factory.mktemp('slots')}{os.sep}")
    with start_server(*cache("tbq4_0", "planar3_0"), *folder) as server:
        server.complete(TEXT, cache_prompt=True)
        # As after a restore: all of the prompt but its last token is in the cache, which single steps read.
        answer = server.complete(TEXT, cache_prompt=True)
        assert slot(server, "save").json()["n_saved"] > 20
    return folder, answer


def test_a_saved_slot_goes_on_where_it_was(start_server, saved):
    folder, before = saved
    with start_server(*cache("tbq4_0", "planar3_0"), *folder) as server:
        assert slot(server, "restore").json()["n_restored"] > 20
        after = server.complete(TEXT, cache_prompt=True)
    assert after["timings"]["cache_n"] > 20
    assert after["content"] == before["content"]


@pytest.mark.parametrize("other", [("f16", "f16"), ("q8_0", "q8_0"), ("planar3_0", "tbq4_0"), ("tcq4_0", "tcq3_0")])
def test_a_saved_slot_of_another_kind_is_refused_and_harms_nothing(start_server, saved, other):
    folder, _ = saved
    with start_server(*cache(*other), *folder) as server:
        assert slot(server, "restore").status_code == 400
        assert "Tokyo" in server.complete(TEXT)["content"]


def test_a_saved_slot_that_was_cut_is_refused_and_harms_nothing(start_server, saved):
    folder, _ = saved
    whole = Path(folder[1], "saved.bin").read_bytes()
    cuts = (len(whole) - 1, len(whole) // 2, 100, 13, 12)
    for size in cuts:
        Path(folder[1], f"cut-{size}.bin").write_bytes(whole[:size])
    with start_server(*cache("tbq4_0", "planar3_0"), *folder) as server:
        for size in cuts:
            assert slot(server, "restore", f"cut-{size}.bin").status_code == 400
        assert slot(server, "restore").json()["n_restored"] > 20
        assert "Tokyo" in server.complete(TEXT)["content"]


def test_a_q8_0_slot_saved_with_rotation_is_refused_without(start_server, tmp_path):
    folder = ("--slot-save-path", f"{tmp_path}{os.sep}")
    with start_server(*cache("q8_0"), *folder) as server:
        server.complete(TEXT, cache_prompt=True)
        assert slot(server, "save").status_code == 200
    with start_server(*cache("q8_0"), *folder, env={"LLAMA_ATTN_ROT_DISABLE": "1"}) as server:
        assert slot(server, "restore").status_code == 400
    assert "another kind of cache" in server.log.read_text(errors="replace")
