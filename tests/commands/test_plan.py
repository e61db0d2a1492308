"""`kvarn plan` as scripts and people meet it."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from gguf_maker import GgufMaker
from kvarn.cli import app
from kvarn.commands.plan import NO_SIZES
from kvarn.domain.errors import EngineNotFoundError, ModelNotFoundError
from kvarn.domain.launch.decode_speed import DecodeMeasurement
from kvarn.domain.settings import Settings
from kvarn.services.launch.calibration_store import CalibrationStore
from kvarn.services.launch.engine_locator import locate_engine

STARTER_F16_8192 = 188_743_680


@pytest.fixture
def no_engine(monkeypatch, tmp_path):
    """A machine whose configured engine folder is empty."""
    monkeypatch.setenv("KVARN_ENGINE_DIR", str(tmp_path))


def run(*arguments: str):
    return CliRunner().invoke(app, ["plan", *arguments])


def document(*arguments: str) -> dict:
    return json.loads(run(*arguments, "--json", "--rough").stdout)


@pytest.mark.engine
def test_the_starter_at_8192_tokens_in_f16_takes_180_mib_and_fits():
    try:
        locate_engine(Settings())
    except EngineNotFoundError as error:
        pytest.skip(str(error))
    result = run("starter", "--kv", "f16", "--ctx", "8192", "--json")
    assert result.exit_code == 0, result.output
    got = json.loads(result.stdout)
    assert got["kv_bytes"] == STARTER_F16_8192
    assert got["fits"] is True
    assert got["problems"] == []
    assert got["total_bytes"] == got["weights_bytes"] + got["kv_bytes"] + got["compute_bytes"]
    assert got["decode_tok_per_s"]["low"] is None


@pytest.mark.usefixtures("no_engine")
def test_without_an_engine_the_memory_is_still_planned_and_the_exit_code_says_no():
    result = run("starter", "--json")
    assert result.exit_code == 1
    got = json.loads(result.stdout)
    assert got["kv_bytes"] == STARTER_F16_8192
    assert got["compute_source"] == "guess"
    assert [p["code"] for p in got["problems"]] == ["no-engine"]
    assert "No engine was found" in result.stderr


@pytest.mark.usefixtures("no_engine")
@pytest.mark.parametrize(
    ("arguments", "k", "v", "kv_bytes"),
    [
        (["--kv", "q8_0"], "q8_0", "q8_0", 12240 * 8192),
        (["--kv", "q8_0/q4_0"], "q8_0", "q4_0", (6120 + 3240) * 8192),
        (["--kv-k", "q8_0", "--kv-v", "q4_0"], "q8_0", "q4_0", (6120 + 3240) * 8192),
        (["--kv-k", "q8_0"], "q8_0", "f16", (6120 + 11520) * 8192),
        (["--ctx", "2048", "--slots", "3"], "f16", "f16", 3 * 2048 * 23040),
        (["--ctx", "2048", "--slots", "3", "--unified"], "f16", "f16", 2048 * 23040),
    ],
)
def test_types_context_and_slots_are_read_as_documented(arguments, k, v, kv_bytes):
    got = document("starter", *arguments)
    assert (got["kv_k"], got["kv_v"], got["kv_bytes"]) == (k, v, kv_bytes)


@pytest.mark.parametrize(
    "arguments",
    [
        ["starter", "--kv", "q8_0", "--kv-k", "f16"],
        ["starter", "--kv", "q8_0/"],
        ["starter", "--ctx", "many"],
        ["starter", "--flash-attn", "maybe"],
        ["starter", "--no-such-option"],
        [],
    ],
)
def test_bad_usage_ends_with_exit_code_2(arguments):
    assert run(*arguments).exit_code == 2


@pytest.mark.usefixtures("no_engine")
def test_absurd_numbers_are_problems_not_tracebacks():
    got = document("starter", "--ctx", "-4", "--slots", "0")
    assert (got["kv_bytes"], got["total_bytes"], got["fits"]) == (None, None, None)
    assert got["unknown"]


@pytest.mark.usefixtures("no_engine")
def test_a_cache_type_nobody_knows_is_not_blamed_on_the_engine():
    got = document("starter", "--kv", "nonsense")
    assert got["unknown"] == "Without an engine the size of cache type “nonsense” is not known."
    assert got["decode_tok_per_s"]["basis"] == NO_SIZES


def test_a_cache_type_the_engine_lacks_is_named(monkeypatch, fake_engine_dir):
    monkeypatch.setenv("KVARN_ENGINE_DIR", str(fake_engine_dir))
    got = document("starter", "--kv", "q8_0/nonsense")
    assert got["unknown"] == "“nonsense” is no cache type of this engine."
    assert [p["code"] for p in got["problems"]] == ["kv-type-not-offered"]


def test_an_absurd_context_is_answered_with_what_the_model_can_use(monkeypatch, fake_engine_dir):
    monkeypatch.setenv("KVARN_ENGINE_DIR", str(fake_engine_dir))
    problems = {p["code"]: p for p in document("starter", "--ctx", "100000000")["problems"]}
    beyond = problems["context-tokens-out-of-range"]
    assert beyond["message"] == "The context cannot be 100,000,000 tokens."
    assert beyond["remedy"] == "Choose between 1 and 8,192 tokens."
    assert "trained for do fit" in problems["does-not-fit"]["remedy"]


def test_a_model_that_does_not_exist_is_named():
    with pytest.raises(ModelNotFoundError, match="no model"):
        CliRunner().invoke(app, ["plan", "no-such-model"], catch_exceptions=False)


@pytest.mark.usefixtures("no_engine")
def test_a_layout_we_do_not_understand_gives_a_reason_instead_of_a_number(tmp_path):
    path = tmp_path / "odd.gguf"
    GgufMaker("qa-made-up").hparam("block_count", 2).tensor("token_embd.weight", (64, 32)).write(path)
    got = document(str(path))
    assert (got["kv_bytes"], got["total_bytes"], got["fits"]) == (None, None, None)
    assert got["unknown"]
    text = run(str(path), "--rough").stdout
    assert "No estimate" in text


@pytest.mark.usefixtures("no_engine")
def test_measured_runs_turn_into_an_expected_speed():
    CalibrationStore().record(
        DecodeMeasurement(
            model_id="starter",
            model_title="SmolLM2",
            step_bytes=96_000_000,
            decode_tok_per_s=100.0,
            depth_tokens=0,
            on_gpu=False,
            engine_version="1",
        )
    )
    got = document("starter")
    empty, full = got["decode_tok_per_s"], got["decode_tok_per_s_full_context"]
    assert 45 < empty["low"] < 100 < empty["high"] < 210
    assert full["high"] < empty["high"]
    assert "GB/s" in empty["basis"]
    assert "tok/s" in run("starter", "--rough").stdout


@pytest.mark.usefixtures("no_engine")
def test_without_an_estimate_no_speed_is_promised():
    run_here = {"model_id": "starter", "model_title": "SmolLM2", "depth_tokens": 0, "on_gpu": False}
    measured = DecodeMeasurement(step_bytes=96_000_000, decode_tok_per_s=100.0, engine_version="1", **run_here)
    CalibrationStore().record(measured)
    text = run("starter", "--ctx", "-3", "--rough").stdout
    assert "No estimate" in text
    assert "decode" not in text
    assert document("starter", "--ctx", "-3")["decode_tok_per_s"] == {"low": None, "high": None, "basis": NO_SIZES}


@pytest.mark.usefixtures("no_engine")
def test_people_get_a_table_with_parts_total_and_verdict():
    text = run("starter", "--rough").stdout
    for words in ("weights", "KV, 30 layers", "180 MiB", "compute buffer, rough", "total", "fits"):
        assert words in text
