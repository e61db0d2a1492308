from __future__ import annotations

import json
from pathlib import Path

import pytest

from kvarn.domain.errors import EngineCallError, EngineNotFoundError
from kvarn.domain.settings import Settings
from kvarn.services.launch import capability_probe
from kvarn.services.launch.capability_probe import flags_from, kv_types_from, probe_engine, spec_types_from
from kvarn.services.launch.engine_locator import find_server, locate_engine

HELP = """\
----- common params -----

-h,    --help, --usage                  print usage and exit
-ctk,  --cache-type-k TYPE              KV cache data type for K
                                        allowed values: f32, f16, bf16, q8_0, q4_0, q4_1, iq4_nl, q5_0, tbq4_0,
                                        q5_1
                                        (default: f16)
                                        (env: LLAMA_ARG_CACHE_TYPE_K)
-lv,   --verbosity, --log-verbosity N   Set the verbosity threshold. See --log-file. Values:
                                         - 0: generic output
                                        use --list-devices to see a list of available devices
--spec-type none,draft-mtp,ngram-mod    comma-separated list of types of speculative decoding to use (default:
                                        none)
"""


def test_long_options_are_those_that_begin_a_paragraph() -> None:
    assert {"--help", "--usage", "--cache-type-k", "--log-verbosity", "--spec-type"} <= flags_from(HELP)
    assert "--list-devices" not in flags_from(HELP)


def test_cache_types_are_those_of_the_help_text_with_known_sizes() -> None:
    names = [kv.name for kv in kv_types_from(HELP)]
    assert names == ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]


def test_kinds_of_speculation_come_from_the_help_text() -> None:
    assert spec_types_from(HELP) == ("none", "draft-mtp", "ngram-mod")
    assert spec_types_from("") == ()


def test_a_plain_engine_is_probed_by_its_own_words(fake_engine_dir: Path, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_KV_TYPES", "f16,q8_0")
    build = probe_engine(fake_engine_dir / "llama-server")
    assert (build.is_kvarn, build.base, build.backends) == (False, "unknown", ("CPU",))
    assert build.version == "9999 (stand-in)"
    assert [kv.name for kv in build.kv_types] == ["f16", "q8_0"]
    assert build.kv_type("q8_0").bits_per_value == 8.5
    assert build.kv_type("tbq4_0") is None
    assert build.offers("--metrics")


def test_our_engine_describes_itself_and_its_own_types(fake_engine_dir: Path) -> None:
    kv_type = {"name": "tbq4_0", "block_values": 128, "block_bytes": 66, "bits_per_value": 4.125}
    info = {
        "base": "llama-cpp-python 0.3.36",
        "version": "0.3.36+kvarn.1",
        "patches": [{"name": "llama/count.patch", "sha256": "00", "subject": "count builds"}],
        "backends": ["CPU", "CUDA"],
        "compiler": "GNU 12.2.0",
        "flags": ["-O3"],
        "kv_types": [kv_type],
    }
    (fake_engine_dir / "kvarn-build-info.json").write_text(json.dumps(info))
    build = probe_engine(fake_engine_dir / "llama-server")
    assert build.is_kvarn
    assert build.version == "0.3.36+kvarn.1"
    assert build.patches[0].subject == "count builds"
    assert build.backends == ("CPU", "CUDA")
    assert build.kv_type("tbq4_0").bits_per_value == 4.125
    assert build.offers("--cache-type-k")


def test_the_second_probe_is_answered_from_the_cache_until_the_program_changes(
    fake_engine_dir: Path, monkeypatch
) -> None:
    server = fake_engine_dir / "llama-server"
    first = probe_engine(server)
    monkeypatch.setenv("FAKE_KV_TYPES", "f16")
    assert probe_engine(server) == first
    server.write_text(server.read_text() + "\n")
    assert [kv.name for kv in probe_engine(server).kv_types] == ["f16"]


def test_a_damaged_cache_is_made_anew(fake_engine_dir: Path, kvarn_home: Path) -> None:
    server = fake_engine_dir / "llama-server"
    first = probe_engine(server)
    (kvarn_home / "cache" / "engine-probes.json").write_bytes(b"\x00\x00")
    assert probe_engine(server) == first


@pytest.mark.parametrize("program", ["#!/bin/sh\necho missing library >&2\nexit 127\n", "not a program"])
def test_an_engine_that_cannot_answer_is_a_sentence_with_its_words(tmp_path: Path, program: str) -> None:
    server = tmp_path / "llama-server"
    server.write_text(program)
    server.chmod(0o755)
    with pytest.raises(EngineCallError, match=r"did not answer --help"):
        probe_engine(server)


def test_an_engine_whose_help_hangs_is_given_up(fake_engine_dir: Path, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_HELP_HANGS", "1")
    monkeypatch.setattr(capability_probe, "_PROBE_S", 0.5)
    with pytest.raises(EngineCallError, match="within"):
        probe_engine(fake_engine_dir / "llama-server")


def test_the_developers_engine_comes_first_then_the_users(fake_engine_dir: Path, tmp_path: Path, monkeypatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "llama-server").write_text("#!/bin/sh\n")
    (other / "llama-server").chmod(0o755)
    monkeypatch.delenv("KVARN_ENGINE_DIR", raising=False)
    assert find_server(Settings(engine_dir=str(other))) == other / "llama-server"
    assert find_server(Settings(engine_dir=str(other / "llama-server"))) == other / "llama-server"
    monkeypatch.setenv("KVARN_ENGINE_DIR", str(fake_engine_dir))
    assert locate_engine(Settings(engine_dir=str(other))).server == fake_engine_dir / "llama-server"


def test_a_chosen_place_without_an_engine_is_told_and_never_passed_over(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("KVARN_ENGINE_DIR", str(tmp_path))
    with pytest.raises(EngineNotFoundError, match="KVARN_ENGINE_DIR") as caught:
        find_server(Settings())
    assert str(tmp_path) in str(caught.value)


def test_without_any_engine_every_place_looked_in_is_listed(monkeypatch) -> None:
    monkeypatch.delenv("KVARN_ENGINE_DIR", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(EngineNotFoundError) as caught:
        find_server(Settings())
    for place in ("KVARN_ENGINE_DIR", "settings", "llama_cpp"):
        assert place in str(caught.value)
