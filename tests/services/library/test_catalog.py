"""The background scan: frozen listings, never in the way of its caller."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from gguf_maker import GgufMaker
from kvarn.domain.settings import Settings
from kvarn.services.library.catalog import Listing, ModelCatalog
from kvarn.services.library.header_reader import DEADLINE_S
from patience import HANG_S


def scans(folder: Path) -> Settings:
    return Settings(model_folders=(str(folder),), scan_other_tools=False)


class Watched:
    """A catalog over one folder, and every listing it published."""

    def __init__(self, folder: Path) -> None:
        self.listings: list[Listing] = []
        self.threads: set[str] = set()
        self.news = threading.Condition()
        self.catalog = ModelCatalog(lambda: scans(folder), self._take)

    def _take(self, listing: Listing) -> None:
        with self.news:
            self.threads.add(threading.current_thread().name)
            self.listings.append(listing)
            self.news.notify_all()

    def wait(self, condition: Callable[[Listing], bool]) -> Listing:
        with self.news:
            assert self.news.wait_for(lambda: any(map(condition, self.listings)), HANG_S)
            return next(filter(condition, self.listings))


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    yield made
    made.catalog.close()


def test_a_scan_runs_in_the_background_and_publishes_what_it_found(watched: Watched, tmp_path: Path) -> None:
    GgufMaker.llama().with_weights().write(tmp_path / "m.gguf")
    assert watched.catalog.listing() == Listing()
    watched.catalog.start_scan()
    listing = watched.wait(lambda listing: listing.finished)
    assert [entry.id for entry in listing.entries] == ["starter", "m"]
    assert watched.catalog.listing() is listing
    assert listing.files_found == listing.files_read == 2
    assert watched.threads == {"model-catalog"}


def test_a_second_scan_sees_what_has_changed(watched: Watched, tmp_path: Path) -> None:
    watched.catalog.start_scan()
    watched.wait(lambda listing: listing.finished)
    GgufMaker.llama().with_weights().write(tmp_path / "new.gguf")
    watched.catalog.start_scan()
    watched.wait(lambda listing: listing.finished and listing.entry("new") is not None)


def test_the_callbacks_of_a_removed_or_broken_listener_do_not_matter(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    removed: list[Listing] = []
    watched.catalog.subscribe(removed.append)()

    def broken(listing: Listing) -> None:
        raise RuntimeError("listener")

    watched.catalog.subscribe(broken)
    watched.catalog.start_scan()
    watched.wait(lambda listing: listing.finished)
    watched.catalog.close()
    assert removed == []
    assert {record.message for record in caplog.records} == {"a listener of the model catalog failed"}
    for record in caplog.records:
        record.expected = True


def hang_after_one_file(catalog: ModelCatalog, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Suspend the worker of the next scan as soon as it has read one of several files; set once that is done."""
    monkeypatch.setattr("kvarn.services.library.scan._PROGRESS_S", 0.0)
    hanging = threading.Event()

    def suspend(listing: Listing) -> None:
        workers = psutil.Process().children()
        if workers and listing.files_read < listing.files_found and not hanging.is_set():
            workers[0].suspend()
            hanging.set()

    catalog.subscribe(suspend)
    return hanging


def write_models(folder: Path, name: str) -> None:
    for number in range(3):
        GgufMaker.llama(name=name).with_weights().write(folder / f"{number}.gguf")


def test_a_hanging_scan_can_be_cancelled_and_keeps_the_list_that_stood(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_models(tmp_path, "first")
    watched.catalog.start_scan()
    complete = watched.wait(lambda listing: listing.finished)
    write_models(tmp_path, "changed")
    hanging = hang_after_one_file(watched.catalog, monkeypatch)
    watched.catalog.start_scan()
    assert hanging.wait(HANG_S)
    watched.catalog.cancel()
    cancelled = watched.wait(lambda listing: listing.cancelled)
    assert cancelled.entries == complete.entries


def test_close_during_a_scan_ends_thread_and_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_models(tmp_path, "model")
    catalog = ModelCatalog(lambda: scans(tmp_path))
    hanging = hang_after_one_file(catalog, monkeypatch)
    catalog.start_scan()
    assert hanging.wait(HANG_S)
    begun = time.monotonic()
    catalog.close()
    assert time.monotonic() - begun < DEADLINE_S, "the hanging worker was waited for"
    catalog.start_scan()
    assert "model-catalog" not in [thread.name for thread in threading.enumerate()]
    assert not psutil.Process().children()


def test_a_first_scan_fills_the_list_as_it_goes(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvarn.services.library.scan._PROGRESS_S", 0.0)
    for number in range(20):
        GgufMaker.llama().with_weights().write(tmp_path / f"{number:02}.gguf")
    watched.catalog.start_scan()
    partial = watched.wait(lambda listing: 0 < listing.files_read < 20)
    assert not partial.finished
    assert len(partial.entries) == partial.files_read
