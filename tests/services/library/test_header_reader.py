"""The worker process: bounded, replaceable, never in the way."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gguf_maker import GgufMaker
from kvarn.services.library.header_reader import HeaderReader
from kvarn.services.library.header_worker import MEMORY_LIMIT_BYTES
from patience import HANG_S


@pytest.fixture
def reader() -> Iterator[HeaderReader]:
    with HeaderReader(deadline_s=HANG_S) as opened:
        yield opened


def worker() -> psutil.Process:
    return psutil.Process().children()[0]


def code_of(reader: HeaderReader, path: Path) -> str | None:
    problem = reader.read(path).problem
    return problem.code if problem else None


def test_one_worker_reads_many_files(reader: HeaderReader, tmp_path: Path) -> None:
    paths = [GgufMaker.llama().with_weights().write(tmp_path / f"{number}.gguf") for number in range(3)]
    assert [code_of(reader, path) for path in paths] == [None] * 3
    assert len(psutil.Process().children()) == 1


def test_the_starter_model_is_read(reader: HeaderReader, starter_model: Path) -> None:
    reading = reader.read(starter_model)
    assert reading.problem is None
    assert reading.facts.hparams["attention.head_count_kv"] == 3
    assert reading.facts.vocab_size == 49152
    assert reading.facts.tensors.elements_total == 134_515_008
    assert reading.facts.tensors.output_bytes == 0


def test_the_worker_may_not_use_more_memory_than_its_limit(reader: HeaderReader, tmp_path: Path) -> None:
    reader.read(GgufMaker.llama().write(tmp_path / "m.gguf"))
    assert worker().rlimit(psutil.RLIMIT_AS) == (MEMORY_LIMIT_BYTES, MEMORY_LIMIT_BYTES)


def test_only_regular_files_are_opened(reader: HeaderReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe.gguf")
    (tmp_path / "folder.gguf").mkdir()
    (tmp_path / "loop.gguf").symlink_to("loop.gguf")
    (tmp_path / "broken.gguf").symlink_to("nowhere")
    with socket.socket(socket.AF_UNIX) as server:
        monkeypatch.chdir(tmp_path)  # a socket's path is limited to 108 bytes
        server.bind("socket.gguf")
        messages = [reader.read(tmp_path / f"{name}.gguf").problem.message for name in ("pipe", "folder", "socket")]
    assert messages == [f"This is a {kind}, not a model file." for kind in ("pipe", "folder", "socket")]
    assert code_of(reader, tmp_path / "loop.gguf") == code_of(reader, tmp_path / "broken.gguf") == "broken-link"
    assert "No such file" in reader.read(tmp_path / "absent.gguf").problem.message
    assert code_of(reader, Path("a\0b")) == "unreadable"
    assert not psutil.Process().children()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_says_so(reader: HeaderReader, tmp_path: Path) -> None:
    path = GgufMaker.llama().write(tmp_path / "m.gguf")
    path.chmod(0)
    assert "Permission denied" in reader.read(path).problem.message
    path.chmod(stat.S_IRUSR)


def test_a_worker_that_dies_costs_one_file_a_sentence(reader: HeaderReader, tmp_path: Path) -> None:
    path = GgufMaker.llama().with_weights().write(tmp_path / "m.gguf")
    assert code_of(reader, path) is None
    worker().kill()
    worker().wait(HANG_S)
    assert code_of(reader, path) == "reader-crashed"
    assert code_of(reader, path) is None


def test_a_header_that_takes_too_long_is_given_up(reader: HeaderReader, tmp_path: Path) -> None:
    path = GgufMaker.llama().with_weights().write(tmp_path / "m.gguf")
    assert code_of(reader, path) is None
    worker().suspend()
    reader._deadline_s = 0.2  # only now: starting a worker takes its time on a busy machine
    assert code_of(reader, path) == "too-slow"
    reader._deadline_s = HANG_S
    assert code_of(reader, path) is None


def test_a_read_in_progress_can_be_interrupted(reader: HeaderReader, tmp_path: Path) -> None:
    path = GgufMaker.llama().with_weights().write(tmp_path / "m.gguf")
    reader.read(path)
    worker().suspend()
    threading.Timer(0.1, reader.interrupt).start()
    assert code_of(reader, path) == "interrupted"


@pytest.mark.parametrize("name", ["with space", "new\nline", "--model", "模型 🦙", os.fsdecode(b"not-utf8-\xff\xfe")])
def test_odd_names_are_read_like_any_other(reader: HeaderReader, tmp_path: Path, name: str) -> None:
    assert code_of(reader, GgufMaker.llama().with_weights().write(tmp_path / f"{name}.gguf")) is None


def test_a_module_in_the_working_folder_is_not_run(
    reader: HeaderReader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "msgspec.py").write_text("raise SystemExit('hijacked')")
    monkeypatch.chdir(tmp_path)
    assert code_of(reader, GgufMaker.llama().with_weights().write(tmp_path / "m.gguf")) is None
