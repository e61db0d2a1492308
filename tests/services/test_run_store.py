"""Stored runs: on disk at once, together or not at all, and never lost to a damaged file."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
import threading

import pytest

from kvarn.domain.errors import ResultError
from kvarn.services import run_store
from kvarn.services.run_store import RunStore


def add(store: RunStore, title: str = "a model"):
    return store.add_run(kind="compare", digest="d", title=title, setup=b"{}")


def test_what_was_kept_is_there_for_the_next(tmp_path):
    path = tmp_path / "deep" / "results.sqlite"
    run = add(RunStore(path))
    RunStore(path).keep(run.id, "b", b"2")
    RunStore(path).keep(run.id, "a", b"1")
    RunStore(path).keep(run.id, "b", b"3")
    assert RunStore(path).runs() == (run,)
    assert RunStore(path).run(run.id) == run
    assert RunStore(path).samples(run.id) == (b"1", b"3")


def test_a_forgotten_sample_is_gone_and_a_deleted_run_takes_its_samples_along(tmp_path):
    store = RunStore(tmp_path / "results.sqlite")
    first, second = add(store), add(store, "another")
    for run in (first, second):
        store.keep(run.id, "a", b"1")
        store.keep(run.id, "b", b"2")
    store.forget(first.id, "a")
    assert store.samples(first.id) == (b"2",)
    assert store.delete(second.id)
    assert not store.delete(second.id)
    assert store.runs() == (first,)
    assert store.samples(second.id) == ()
    assert add(store).id > second.id, "a number is never given twice"


def test_a_damaged_file_is_told_and_left_as_it_is(tmp_path):
    path = tmp_path / "results.sqlite"
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(ResultError, match=r"results\.sqlite.* Move the file away"):
        RunStore(path).runs()
    assert path.read_bytes() == b"no database at all" * 100


def test_a_file_in_use_is_not_to_be_moved_away(tmp_path, monkeypatch):
    monkeypatch.setattr(run_store, "_WAIT_S", 0.05)
    store = RunStore(tmp_path / "results.sqlite")
    add(store)
    with contextlib.closing(sqlite3.connect(store.path)) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ResultError, match="try again") as refused:
            store.runs()
    assert "Move" not in str(refused.value)


def test_a_folder_that_cannot_be_is_told_without_numbers(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResultError, match="KVARN_HOME") as refused:
        RunStore(tmp_path / "file" / "results.sqlite").runs()
    assert "Errno" not in str(refused.value)


def test_a_newer_file_is_not_touched(tmp_path):
    path = tmp_path / "results.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(ResultError, match="newer Kvarn"):
        add(RunStore(path))


def test_a_sample_of_no_run_is_refused(tmp_path):
    with pytest.raises(ResultError, match="deleted while"):
        RunStore(tmp_path / "results.sqlite").keep(7, "a", b"1")


def test_many_begin_at_once(tmp_path):
    store = RunStore(tmp_path / "results.sqlite")
    threads = [threading.Thread(target=add, args=(store,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({run.id for run in store.runs()}) == 8


@pytest.mark.skipif(sys.platform == "win32", reason="SIGKILL")
def test_a_process_killed_between_two_samples_loses_neither_run_nor_sample(tmp_path):
    path = tmp_path / "results.sqlite"
    run = add(RunStore(path))
    code = f"""
import os, signal
from pathlib import Path
from kvarn.services.run_store import RunStore
store = RunStore(Path({str(path)!r}))
store.keep({run.id}, "a", b"1")
with store._database() as database:
    database.execute("INSERT INTO samples VALUES (?, ?, ?)", ({run.id}, "b", b"2"))
    os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert RunStore(path).samples(run.id) == (b"1",)
