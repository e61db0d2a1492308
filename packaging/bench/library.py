"""What the library costs: a scan of 2,000 files, cold and cached, and one header with 250,000 tokens.

    uv run python packaging/bench/library.py [--files N] [--compare]

`--compare` also times the `gguf` package's reader on the large header (it needs about 1 GB and many seconds).
Works in a temporary folder with its own KVARN_HOME.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "app"), str(ROOT / "tests")]

from gguf_maker import STR, GgufMaker  # noqa: E402
from kvarn.domain.settings import Settings  # noqa: E402
from kvarn.services.library.catalog import ModelCatalog, scan_now  # noqa: E402
from kvarn.services.library.header_reader import HeaderReader  # noqa: E402

TOKENS = 250_000


def main() -> None:
    """Make the files, then print one line a measurement."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--files", type=int, default=2000)
    options.add_argument("--compare", action="store_true")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="kvarn-bench-") as folder:
        os.environ["KVARN_HOME"] = f"{folder}/home"
        measure_scan(Path(folder) / "models", chosen.files)
        measure_header(Path(folder) / "large.gguf", compare=chosen.compare)


def measure_scan(folder: Path, count: int) -> None:
    """A cold scan, a cached one, and how long a thread beside a cold one ever waits."""
    for number in range(count):
        GgufMaker.llama(name=f"model {number}").with_weights().write(folder / f"{number % 20}" / f"model-{number}.gguf")
    settings = Settings(model_folders=(str(folder),), scan_other_tools=False)
    report(f"scan of {count} files, cold", lambda: scan_now(settings))
    report(f"scan of {count} files, cached", lambda: scan_now(settings))
    for path in folder.rglob("*.gguf"):
        os.utime(path)
    finished = threading.Event()
    catalog = ModelCatalog(lambda: settings, lambda listing: finished.set() if listing.finished else None)
    catalog.start_scan()
    waits = []
    while not finished.is_set():
        begun = time.perf_counter()
        time.sleep(0.005)
        waits.append(time.perf_counter() - begun - 0.005)
    catalog.close()
    print(f"{'beside a cold scan, a 5 ms timer was late by':50} {max(waits) * 1000:8.0f} ms at most")


def measure_header(path: Path, *, compare: bool) -> None:
    """One large header through the worker, and its memory."""
    tokens = ["<unk>", "<s>", "</s>", *(f"token-{number:06}" for number in range(TOKENS))]
    merges = [f"to ken-{number:06}" for number in range(TOKENS)]
    maker = GgufMaker.llama(vocab=tokens).array("tokenizer.ggml.merges", merges, STR)
    maker.tensor("token_embd.weight", (64, 32)).write(path)
    with HeaderReader() as reader:
        report(
            "first answer of a new worker, tiny header",
            lambda: reader.read(GgufMaker.llama().write(path.with_name("t.gguf"))),
        )
        worker = psutil.Process().children()[0]
        for _ in range(3):
            before_s = worker.cpu_times().user + worker.cpu_times().system
            report(f"header with {TOKENS} tokens and as many merges", lambda: reader.read(path))
            cpu_s = worker.cpu_times().user + worker.cpu_times().system - before_s
            print(f"{'  of which the worker computed':50} {cpu_s * 1000:8.0f} ms")
        print(f"{'worker, resident after it':50} {worker.memory_info().rss >> 20:8} MiB")
    if compare:
        from gguf import GGUFReader

        report("the same header with gguf.GGUFReader", lambda: GGUFReader(path))
        print(f"{'this process, resident after it':50} {psutil.Process().memory_info().rss >> 20:8} MiB")


def report(what: str, work: Callable[[], object]) -> None:
    """Run it once and print its duration."""
    begun = time.perf_counter()
    work()
    print(f"{what:50} {(time.perf_counter() - begun) * 1000:8.0f} ms")


if __name__ == "__main__":
    main()
