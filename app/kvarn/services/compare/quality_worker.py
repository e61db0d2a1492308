"""A short-lived process in which every pair of cache types reads the same text beside the reference.

`python -m kvarn.services.compare.quality_worker REQUEST` takes a `QualityRequest` as JSON and prints a `QualityAnswer`
a line, each begun with MARK: the engine's own words share the stream. All pairs read in step, so that no logits
are ever stored: a context of 8,192 tokens of a large vocabulary would fill gigabytes.
"""

from __future__ import annotations

import hashlib
import math
import sys
from pathlib import Path
from typing import Any

import msgspec
import psutil

from kvarn.domain.compare.divergence import divergences, same_first_choice
from kvarn.domain.compare.kv_pair import REFERENCE, KvPair
from kvarn.domain.compare.measured import QualitySample, Refusal
from kvarn.services.compare.text_reader import (
    BATCH_TOKENS,
    TextReader,
    Tokens,
    first_token,
    reference_text,
    tokenize,
)
from kvarn.services.launch.bindings import load_bindings
from kvarn.services.machine_facts import read_machine_facts

MARK = "kvarn-quality "


class QualityRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to read. Without chunks only the text's tokens are counted. An empty `text_path` is the reference text."""

    package_dir: str
    """The engine's `llama_cpp` folder."""
    model_path: str
    text_path: str
    text_sha256: str = ""
    """What the text was when the comparison began."""
    context_tokens: int
    chunks: tuple[int, ...] = ()
    pairs: tuple[KvPair, ...] = ()
    threads: int | None = None
    gpu_layers: int | None = None


class TokenCount(msgspec.Struct, frozen=True, tag="count"):
    """Tokens the text has for this model."""

    tokens: int


class Reading(msgspec.Struct, frozen=True, tag="reading"):
    """A sign of life: tokens of this chunk read by all."""

    chunk: int
    tokens: int


class Trouble(msgspec.Struct, frozen=True, tag="trouble"):
    """Why nothing can be measured."""

    message: str


QualityAnswer = TokenCount | Reading | QualitySample | Refusal | Trouble


def work(request: QualityRequest) -> None:
    """Answer one request on stdout."""
    bindings = load_bindings(Path(request.package_dir))
    callback = bindings.llama_log_callback(_errors_only)
    bindings.llama_log_set(callback, None)
    bindings.llama_backend_init()
    model = bindings.llama_model_load_from_file(request.model_path.encode(), _model_params(bindings, request))
    if not model:
        _say(Trouble("The engine cannot load this model."))
        return
    text = Path(request.text_path).read_text("utf-8") if request.text_path else reference_text()
    if request.text_sha256 and hashlib.sha256(text.encode()).hexdigest() != request.text_sha256:
        _say(Trouble("The text has changed since this comparison began; its figures would not be of one text."))
        return
    tokens = tokenize(bindings, model, text)
    if request.chunks:
        _read_all(bindings, model, request, tokens)
    else:
        _say(TokenCount(len(tokens)))


def _model_params(bindings: Any, request: QualityRequest) -> Any:
    params = bindings.llama_model_default_params()
    params.vocab_only = not request.chunks
    if request.gpu_layers is not None:
        params.n_gpu_layers = request.gpu_layers
    return params


def _read_all(bindings: Any, model: Any, request: QualityRequest, tokens: Tokens) -> None:
    base = _reader(bindings, model, request, REFERENCE)
    readers: dict[KvPair, TextReader] = {}
    for pair in request.pairs:
        try:
            readers[pair] = _reader(bindings, model, request, pair)
        except RuntimeError as error:
            _say(Refusal(pair=pair, depth=None, message=str(error)))
    bos = first_token(bindings, model)
    for number in request.chunks:
        chunk = tokens[number * request.context_tokens : (number + 1) * request.context_tokens].copy()
        chunk[0] = chunk[0] if bos is None else bos
        for sample in _read_chunk(number, chunk, base, readers):
            _say(sample)


def _reader(bindings: Any, model: Any, request: QualityRequest, pair: KvPair) -> TextReader:
    threads = request.threads or _cores()
    return TextReader(bindings, Path(request.package_dir), model, pair, request.context_tokens, threads)


def _cores() -> int:
    """As many threads as `llama-bench` takes when not told: cores, not hyper-threads. The bindings say 4."""
    usable = read_machine_facts().cores or 1
    return min(psutil.cpu_count(logical=False) or usable, usable)


def _read_chunk(
    number: int, chunk: Tokens, base: TextReader, readers: dict[KvPair, TextReader]
) -> list[QualitySample | Refusal]:
    """The second half is scored, less its last token, after which nothing comes. Who fails drops out of `readers`."""
    sums = {pair: _Sums() for pair in readers}
    failed: dict[KvPair, str] = {}
    for reader in (base, *readers.values()):
        reader.restart()
    for start in range(0, len(chunk), BATCH_TOKENS):
        part = chunk[start : start + BATCH_TOKENS]
        wanted = start >= len(chunk) // 2
        keep = slice(0, len(part) - (start + BATCH_TOKENS >= len(chunk)))
        told = base.logits(part, start, wanted=wanted)[keep].copy()
        for pair, reader in readers.items():
            try:
                heard = reader.logits(part, start, wanted=wanted)[keep]
            except RuntimeError as error:
                failed[pair] = str(error)
                continue
            if wanted:
                kld, same = divergences(told, heard), same_first_choice(told, heard)
                sums[pair].add(len(kld), float(kld.sum()), float((kld * kld).sum()), int(same.sum()))
        for pair in failed:
            readers.pop(pair, None)
        _say(Reading(number, start + len(part)))
    refusals = [Refusal(pair=pair, depth=None, message=message) for pair, message in failed.items()]
    return [*(sums[pair].sample(pair, number) for pair in readers), *refusals]


class _Sums:
    """What one pair has gathered in one chunk."""

    def __init__(self) -> None:
        self._tokens, self._kld, self._squares, self._same = 0, 0.0, 0.0, 0

    def add(self, tokens: int, kld: float, squares: float, same: int) -> None:
        self._tokens += tokens
        self._kld += kld
        self._squares += squares
        self._same += same

    def sample(self, pair: KvPair, chunk: int) -> QualitySample | Refusal:
        if not math.isfinite(self._kld + self._squares):
            return Refusal(pair=pair, depth=None, message=f"The logits with {pair.name} are not all numbers.")
        return QualitySample(
            pair=pair,
            chunk=chunk,
            tokens=self._tokens,
            kld_sum=self._kld,
            kld_squares=self._squares,
            same_top=self._same,
        )


def _say(answer: QualityAnswer) -> None:
    sys.stdout.write(MARK + msgspec.json.encode(answer).decode() + "\n")
    sys.stdout.flush()


def _errors_only(level: int, text: bytes, _data: object) -> None:
    """Warnings and errors are the engine's last words; the rest would only be noise (ggml: 3 warning, 4 error)."""
    if level in (3, 4):
        sys.stderr.write(text.decode(errors="replace"))
        sys.stderr.flush()


def main() -> None:
    """One request in the arguments, answers on stdout."""
    work(msgspec.json.decode(sys.argv[1], type=QualityRequest))


if __name__ == "__main__":
    main()
