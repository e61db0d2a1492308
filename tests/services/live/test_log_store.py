from __future__ import annotations

import importlib
import sys
import threading
from datetime import datetime

import pytest

from hand_clock import HandClock
from kvarn.domain.live.log_line import LogLevel, level_of
from kvarn.services.live import log_store
from kvarn.services.live.log_store import LogStore


@pytest.fixture
def store(tmp_path):
    store = LogStore(tmp_path / "logs" / "kvarn.log", lines_kept=100)
    yield store
    store.close()


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("0.00.005.693 W srv  llama_server: security: no API key is set", LogLevel.WARNING),
        ("0.06.433.629 I srv  llama_server: model loaded, no error", LogLevel.INFO),
        ("1.02.003.004 E graph_compute: ggml_backend_sched_graph_compute_async failed with error 1", LogLevel.INFO),
        ("1.02.003.004 E graph_compute: ggml_backend_sched_graph_compute_async failed with error -1", LogLevel.ERROR),
        ("1.02.003.004 E process_ubatch: failed to compute graph, compute status: 1", LogLevel.INFO),
        ("1.02.003.004 E process_ubatch: failed to compute graph, compute status: -2", LogLevel.ERROR),
        ("E llama_init_from_model: failed to initialize the context", LogLevel.ERROR),
        ("0.00.000.001 D que  post: new task", LogLevel.DEBUG),
        ("I am a sentence", LogLevel.INFO),
        ("error: invalid argument: --nope", LogLevel.ERROR),
        ("ggml_abort: GGML_ASSERT failed", LogLevel.ERROR),
        ("Warning: something", LogLevel.WARNING),
        ("load_tensors: still at it", LogLevel.INFO),
        ("", LogLevel.INFO),
    ],
)
def test_the_level_is_the_engines_letter_or_else_what_the_words_say(text, level):
    assert level_of(text) is level


def test_who_knows_the_level_gives_it(store):
    store.append("kvarn", "The engine was killed by another program or user.", LogLevel.WARNING)
    store.append("kvarn", "starting it again in 1 s")
    assert [line.level for line in store.last(2)] == [LogLevel.WARNING, LogLevel.INFO]


def test_lines_are_read_in_batches_by_number_and_the_loss_is_counted(store):
    for number in range(250):
        store.append("engine", f"line {number}")
    lines, dropped = store.since(100, limit=60)
    assert dropped == 50
    assert [line.text for line in (lines[0], lines[-1])] == ["line 150", "line 209"]
    assert [line.seq for line in lines] == list(range(151, 211))
    assert store.since(store.revision) == ((), 0)
    assert [line.text for line in store.last(2)] == ["line 248", "line 249"]
    assert len(store.last(1000)) == 100


def test_the_file_has_every_line_and_the_ring_only_the_newest(store):
    for number in range(250):
        store.append("engine", f"line {number}")
    store.flush()
    text = store.path.read_text().splitlines()
    assert len(text) == 250
    assert text[0].endswith("engine info line 0")


def test_a_line_that_stands_alone_is_on_the_disk_at_once(tmp_path):
    clock = HandClock()
    store = LogStore(tmp_path / "kvarn.log", clock=clock)
    store.append("kvarn", "first")
    clock.sleep(log_store.FLUSH_S)
    store.append("kvarn", "second")
    assert store.path.read_text().endswith("second\n")
    store.close()


def test_the_file_is_rotated_and_old_ones_go(tmp_path, monkeypatch):
    monkeypatch.setattr(log_store, "FILE_BYTES", 2000)
    store = LogStore(tmp_path / "kvarn.log")
    for number in range(400):
        store.append("engine", f"line {number} " + "." * 50)
    store.close()
    files = sorted(tmp_path.iterdir())
    assert [file.name for file in files] == ["kvarn.log", "kvarn.log.1", "kvarn.log.2", "kvarn.log.3"]
    assert all(file.stat().st_size < 2200 for file in files)
    assert "line 399 " in files[0].read_text() or "line 399 " in files[1].read_text()


def test_a_second_start_keeps_the_log_of_the_first(tmp_path):
    for name in ("first", "second"):
        store = LogStore(tmp_path / "kvarn.log")
        store.append("kvarn", name)
        store.close()
    assert "second" in (tmp_path / "kvarn.log").read_text()
    assert "first" in (tmp_path / "kvarn.log.1").read_text()


def test_lines_carry_the_time_of_day_of_their_own_moment(tmp_path):
    moments = [1_700_000_000.25, 1_700_036_000.5]  # between them the machine slept for ten hours
    store = LogStore(tmp_path / "kvarn.log", wall=iter(moments).__next__)
    store.append("engine", "before")
    store.append("engine", "after")
    store.close()
    assert [line.wall_s for line in store.last(2)] == moments
    stamps = [line.split(" engine ")[0] for line in store.path.read_text().splitlines()]
    assert [datetime.fromisoformat(stamp).timestamp() for stamp in stamps] == moments


def test_a_secret_never_reaches_ring_or_file(store):
    store.hide("sk-very-secret")
    store.append("engine", "Authorization: Bearer sk-very-secret was sent")
    store.flush()
    assert "sk-very-secret" not in store.last(1)[0].text
    assert "sk-very-secret" not in store.path.read_text()


def test_garbage_and_endless_lines_are_made_fit_to_show(store):
    store.append("engine", "\x00no text \x1b[31mred\x1b[0m\r\n")
    store.append("engine", "x" * 3_000_000)
    one, two = store.last(2)
    assert one.text == "no text red"
    assert len(two.text) < 4100
    assert two.text.endswith("(2996000 more characters)")


def test_a_folder_that_cannot_be_written_costs_the_file_and_not_the_lines(tmp_path):
    (tmp_path / "file").write_text("")
    store = LogStore(tmp_path / "file" / "kvarn.log")
    store.append("engine", "still here")
    assert store.last(1)[0].text == "still here"
    assert "cannot be written" in store.file_problem
    store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="a limit on file sizes stands in for a full disk")
def test_a_disk_that_fills_up_costs_the_file_and_not_the_reader_or_the_lines(tmp_path):
    resource = importlib.import_module("resource")
    store = LogStore(tmp_path / "kvarn.log")
    store.append("engine", "reaches the disk")
    store.append("engine", "waits for the next block")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        assert [line.text for line in store.since(0)[0]] == ["reaches the disk", "waits for the next block"]
        assert "cannot be written" in store.file_problem
        store.append("engine", "still here")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert store.last(1)[0].text == "still here"
    store.close()


def test_a_burst_from_two_threads_loses_nothing_and_keeps_counting_without_holes(tmp_path):
    store = LogStore(tmp_path / "kvarn.log")

    def speak(source: str) -> None:
        for number in range(20_000):
            store.append(source, f"I slot update_slots: id 0 | task {number} | n_past = 1234")

    threads = [threading.Thread(target=speak, args=(source,)) for source in ("engine", "kvarn")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines, dropped = store.since(0, limit=100_000)
    assert store.revision == 40_000
    assert dropped == 20_000
    assert [line.seq for line in lines] == list(range(20_001, 40_001))
    store.close()
