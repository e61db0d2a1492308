"""`kvarn compare` and `kvarn runs` as scripts and people meet them."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import kvarn
from kvarn.cli import app
from kvarn.domain.errors import CompareError, EngineNotFoundError, ModelNotFoundError
from kvarn.domain.settings import Settings
from kvarn.services.compare.lab_lock import alone_in_the_lab
from kvarn.services.launch.engine_locator import locate_engine
from kvarn.services.run_store import RunStore

QUICK = ("--depth", "0", "--rounds", "1", "--quality-context", "256", "--quality-tokens", "256")


@pytest.fixture
def engine():
    """The real one."""
    try:
        return locate_engine(Settings())
    except EngineNotFoundError as error:
        pytest.skip(str(error))


def run(*words: str):
    return CliRunner().invoke(app, [*words])


@pytest.mark.engine
@pytest.mark.usefixtures("engine")
def test_the_starter_is_compared_stored_shown_and_deleted():
    done = run("compare", "starter", "--kv", "tcq4_0,q8_0/tbq4_0", *QUICK, "--json")
    assert done.exit_code == 0, done.output
    got = json.loads(done.stdout)
    assert [(c["kv_k"], c["kv_v"], c["depth"]) for c in got["cells"]] == [
        ("f16", "f16", 0),
        ("tcq4_0", "tcq4_0", 0),
        ("q8_0", "tbq4_0", 0),
    ]
    for cell in got["cells"]:
        for name in ("decode_tok_per_s", "prefill_tok_per_s"):
            assert 0 < cell[name]["low"] <= cell[name]["median"] <= cell[name]["high"]
    f16, tcq, mixed = got["cells"]
    assert f16["kv_bytes"] == 256 * 30 * 2 * 192 * 2
    assert tcq["kv_bytes"] == 256 * 30 * 2 * 3 * 34
    assert f16["kld_mean"] == 0 == got["floor"]["kld_mean"]
    assert got["floor"]["top1"] == 1
    assert 0 < mixed["kld_mean"] < 0.3
    assert 0 < tcq["kld_mean"] < 0.3
    assert 0 < tcq["kld_se"] < tcq["kld_mean"]
    assert 0.5 < tcq["top1"] <= 1
    assert "73 % smaller" in tcq["verdict"]
    assert got["complete"] is True

    number = str(got["run"])
    assert json.loads(run("runs", "show", number, "--json").stdout) == got
    shown = run("runs", "show", number).stdout
    assert "tcq4_0" in shown
    assert "Noise floor, f16 against f16" in shown
    assert json.loads(run("runs", "--json").stdout)["runs"][0]["complete"] is True
    assert json.loads(run("runs", "--json", "show", number).stdout) == got
    assert json.loads(run("runs", "export", number, "--format", "json").stdout) == got
    table = list(csv.DictReader(io.StringIO(run("runs", "export", number).stdout)))
    assert [row["kv_k"] for row in table] == ["f16", "tcq4_0", "q8_0"]
    assert float(table[1]["decode_tok_per_s.median"]) == tcq["decode_tok_per_s"]["median"]
    assert run("runs", "delete", number).exit_code == 0
    assert json.loads(run("runs", "--json").stdout) == {"runs": []}


@pytest.mark.engine
@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT")
def test_a_stopped_comparison_goes_on_where_it_was(engine):
    words = [sys.executable, "-m", "kvarn", "compare", "starter", "--kv", "q8_0", "--no-quality", "--rounds", "2"]
    words += ["--depth", "0"]
    env = os.environ | {"PYTHONPATH": os.path.dirname(os.path.dirname(kvarn.__file__))}
    with subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        first = next(line for line in process.stderr if line.startswith("["))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(60)
    assert first.startswith("[  1/6] f16 at 0")
    assert process.returncode == 1
    assert "the same command goes on" in err
    assert "Not everything is measured yet" in out
    again = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert "going on after" in again.stderr
    assert "[  1/6]" not in again.stderr


@pytest.mark.engine
@pytest.mark.usefixtures("engine")
def test_two_comparisons_do_not_measure_each_other():
    with alone_in_the_lab():
        done = run("compare", "starter", "--kv", "q8_0", "--no-quality")
    assert isinstance(done.exception, CompareError)
    assert "Another comparison" in str(done.exception)


def test_a_run_is_not_deleted_while_one_is_measured():
    store = RunStore()
    kept = store.add_run(kind="compare", digest="d", title="a model", setup=b"{}")
    with alone_in_the_lab():
        done = run("runs", "delete", str(kept.id))
    assert isinstance(done.exception, CompareError)
    assert store.runs() == (kept,)
    assert run("runs", "delete", str(kept.id)).exit_code == 0
    assert store.runs() == ()


@pytest.mark.engine
@pytest.mark.usefixtures("engine")
def test_no_type_is_not_every_type():
    done = run("compare", "starter", "--kv", "")
    assert done.exit_code == 2
    assert "at least one cache type" in done.output


@pytest.mark.engine
@pytest.mark.usefixtures("engine")
def test_what_cannot_be_compared_is_told_before_anything_is_measured(tmp_path):
    short = tmp_path / "short.txt"
    short.write_text("Too short.")
    binary = tmp_path / "binary.txt"
    binary.write_bytes(b"\xff\xfe\x00")
    for words, sentence in (
        (("--kv", "q9_9"), "does not offer"),
        (("--text", str(short)), "one context of 2,048 needs more"),
        (("--text", str(binary)), "not a UTF-8 text"),
        (("--text", str(tmp_path / "none")), "cannot be read"),
        (("--quality-context", "300"), "multiple of 256"),
    ):
        done = run("compare", "starter", *words)
        assert isinstance(done.exception, CompareError), done.output
        assert sentence in str(done.exception)
    assert json.loads(run("runs", "--json").stdout) == {"runs": []}


@pytest.mark.engine
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("words", [("--kv", "q8_0/"), ("--depth", "deep"), ("--rounds", "0"), ("--depth", "")])
def test_bad_usage_is_exit_2(words):
    assert run("compare", "starter", *words).exit_code == 2


@pytest.mark.engine
@pytest.mark.usefixtures("engine")
def test_a_model_that_is_not_there_is_told():
    assert isinstance(run("compare", "no-such-model").exception, ModelNotFoundError)


def test_an_engine_without_its_benchmark_is_told(fake_engine_dir, monkeypatch):
    monkeypatch.setenv("KVARN_ENGINE_DIR", str(fake_engine_dir))
    done = run("compare", "starter", "--kv", "q8_0")
    assert isinstance(done.exception, CompareError)
    assert "llama-bench" in str(done.exception)


def test_nothing_measured_is_said_and_a_run_that_is_not_there_fails():
    assert "Nothing has been measured yet" in run("runs").stdout
    for what in ("show", "delete"):
        assert run("runs", what, "3").exit_code == 1
