"""Names a person can type, one for each model of a scan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kvarn.domain.library.model_entry import ModelSource
from kvarn.domain.library.one_line import one_line

STARTER_ID = "starter"


def unique_ids(names: Sequence[str], origins: Sequence[str], sources: Sequence[ModelSource]) -> list[str]:
    """`name`; `origin/name` where a name occurs twice; `…~2` where even that does. The starter is `starter`."""
    counts = Counter(names)
    taken = {STARTER_ID}
    ids = []
    for name, origin, source in zip(names, origins, sources, strict=True):
        plain = f"{one_line(origin)}/{name}" if counts[name] > 1 and origin else name
        id = STARTER_ID if source is ModelSource.STARTER else _free(plain, taken)
        taken.add(id)
        ids.append(id)
    return ids


def _free(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}~{number}"
    return free
