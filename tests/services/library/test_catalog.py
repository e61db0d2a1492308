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


class Watched:
    """A catalog over one folder, and every listing it published."""

    def __init__(self, folder: Path) -> None:
        self.listings: list[Listing] = []
        self.news = threading.Condition()
        settings = Settings(model_folders=(str(folder),), scan_other_tools=False)
        self.catalog = ModelCatalog(lambda: settings, self._take)

    def _take(self, listing: Listing) -> None:
        with self.news:
            self.listings.append(listing)
            self.news.notify_all()

    def wait(self, condition: Callable[[Listing], bool]) -> Listing:
        with self.news:
            assert self.news.wait_for(lambda: any(map(condition, self.listings)), 20)
            return next(filter(condition, self.listings))


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[Watched]:
    made = Watched(tmp_path)
    yield made
    made.catalog.close()


def test_a_scan_runs_in_the_background_and_publishes_what_it_found(watched: Watched, tmp_path: Path) -> None:
    GgufMaker.llama().with_weights().write(tmp_path / "m.gguf")
    assert watched.catalog.listing() == Listing()
    begun = time.monotonic()
    watched.catalog.start_scan()
    assert time.monotonic() - begun < 0.2
    listing = watched.wait(lambda listing: listing.finished)
    assert [entry.id for entry in listing.entries] == ["starter", "m"]
    assert watched.catalog.listing() is listing
    assert listing.files_found == listing.files_read == 2


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


def test_a_hanging_scan_can_be_cancelled_and_keeps_the_list_that_stood(watched: Watched, tmp_path: Path) -> None:
    for number in range(200):
        GgufMaker.llama().with_weights().write(tmp_path / f"{number:03}.gguf")
    watched.catalog.start_scan()
    complete = watched.wait(lambda listing: listing.finished)
    for number in range(200):
        GgufMaker.llama(name="changed").with_weights().write(tmp_path / f"{number:03}.gguf")
    watched.catalog.start_scan()
    deadline = time.monotonic() + 10
    while not (children := psutil.Process().children()) and time.monotonic() < deadline:
        time.sleep(0.005)
    children[0].suspend()
    watched.catalog.cancel()
    cancelled = watched.wait(lambda listing: listing.cancelled)
    assert cancelled.entries == complete.entries


def test_close_during_a_scan_ends_thread_and_worker(tmp_path: Path) -> None:
    for number in range(300):
        GgufMaker.llama().with_weights().write(tmp_path / f"{number}.gguf")
    catalog = ModelCatalog(lambda: Settings(model_folders=(str(tmp_path),), scan_other_tools=False))
    catalog.start_scan()
    time.sleep(0.3)
    begun = time.monotonic()
    catalog.close()
    assert time.monotonic() - begun < 2
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
