"""Reads a text with one pair of cache types and says what the model expects next, token by token.

For worker processes: it loads a model through the engine's own bindings.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from kvarn.domain.compare.divergence import Logits
from kvarn.domain.compare.kv_pair import KvPair
from kvarn.services.launch.bindings import type_number

BATCH_TOKENS = 128
"""Tokens between two comparisons: the logits of one batch are all that is kept."""
Tokens = npt.NDArray[np.int32]


def reference_text() -> str:
    """The Python language reference, topic by topic, which every CPython carries: prose and code, 500 kB."""
    from pydoc_data.topics import topics

    return "\n\n".join(topics[name] for name in sorted(topics))


def tokenize(bindings: Any, model: Any, text: str) -> Tokens:
    """The whole text, shape (tokens,), with the model's own first token."""
    raw, vocab = text.encode(), bindings.llama_model_get_vocab(model)
    room = (bindings.llama_token * (len(raw) + 2))()
    count = bindings.llama_tokenize(vocab, raw, len(raw), room, len(room), True, False)
    return np.array(room[: max(0, count)], dtype=np.int32)


def first_token(bindings: Any, model: Any) -> int | None:
    """What this model wants at the start of a context, None when nothing."""
    vocab = bindings.llama_model_get_vocab(model)
    return int(bindings.llama_vocab_bos(vocab)) if bindings.llama_vocab_get_add_bos(vocab) else None


class TextReader:
    """One context over a shared model. Raises RuntimeError when the engine refuses the pair or fails to decode."""

    def __init__(
        self,
        bindings: Any,
        package_dir: Path,
        model: Any,
        pair: KvPair,
        context: int,
        threads: int | None,
        batch_tokens: int = BATCH_TOKENS,
    ) -> None:
        params = bindings.llama_context_default_params()
        params.n_ctx, params.n_seq_max = context, 1
        params.n_batch = params.n_ubatch = batch_tokens
        if threads is not None:
            params.n_threads = params.n_threads_batch = threads
        params.type_k, params.type_v = type_number(package_dir, pair.k), type_number(package_dir, pair.v)
        self._bindings = bindings
        self._vocabulary = bindings.llama_vocab_n_tokens(bindings.llama_model_get_vocab(model))
        self._context = bindings.llama_init_from_model(model, params)
        if not self._context:
            raise RuntimeError(f"The engine refuses a cache of {pair.name} for this model.")

    def restart(self) -> None:
        """Forget the text."""
        self._bindings.llama_memory_clear(self._bindings.llama_get_memory(self._context), True)

    def forget_from(self, position: int) -> None:
        """Take the tokens from `position` on out of the cache."""
        memory = self._bindings.llama_get_memory(self._context)
        if not self._bindings.llama_memory_seq_rm(memory, 0, position, -1):
            raise RuntimeError("This model's memory cannot be cut back.")

    def logits(self, tokens: Tokens, start: int, *, wanted: bool) -> Logits:
        """Read at most one batch at positions from `start`; (tokens, vocabulary), empty unless wanted.

        The array is the engine's own memory, good until the next call.
        """
        batch = self._bindings.llama_batch_init(len(tokens), 0, 1)
        batch.n_tokens = len(tokens)
        for at, token in enumerate(tokens.tolist()):
            batch.token[at], batch.pos[at], batch.n_seq_id[at], batch.logits[at] = token, start + at, 1, wanted
            batch.seq_id[at][0] = 0
        failed = self._bindings.llama_decode(self._context, batch)
        self._bindings.llama_batch_free(batch)
        if failed:
            raise RuntimeError(f"The engine could not read the text (llama_decode: {failed}).")
        if not wanted:
            return np.empty((0, self._vocabulary), np.float32)
        shape = (len(tokens), self._vocabulary)
        return np.ctypeslib.as_array(self._bindings.llama_get_logits(self._context), shape=shape)

    def close(self) -> None:
        """Free the cache."""
        self._bindings.llama_free(self._context)
