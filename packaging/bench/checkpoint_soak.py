"""A thousand short requests to a hybrid model, some edited, some continued: does the server's memory stay where it was?

usage: checkpoint_soak.py [REQUESTS [BUDGET_MIB]]      needs the engine of this project; the model is tests/data's
Prints RSS and checkpoints ten times on the way, then whether a prompt that needs nearly every cell still finds room.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import psutil
from served_engine import HYBRID, ServedEngine, own_programs, served

REQUESTS = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
BUDGET_MIB = int(sys.argv[2]) if len(sys.argv) > 2 else 1
OPENING = "Remember that the code for the lamp is 4821. Tell me a story about a fox and a red key. " * 3
OPTIONS = "-c 2048 -np 2 -kvu -ub 64 -cms 16 --spec-type draft-mtp --cache-ram 2 -t 2"


def ask(engine: ServedEngine, text: str, tokens: int) -> dict[str, Any]:
    """One greedy answer."""
    body = {"messages": [{"role": "user", "content": text}], "temperature": 0.0, "max_tokens": tokens}
    return dict(engine.http.post("/v1/chat/completions", json=body).raise_for_status().json())


def checkpoints(engine: ServedEngine) -> dict[str, int]:
    """`kvarn:checkpoint_*` by the rest of the name."""
    told = engine.metrics("kvarn:checkpoint_")
    return {name.partition("checkpoint_")[2]: int(value) for name, value in told.items()}


def soak(engine: ServedEngine) -> None:
    """The requests, and a line for each tenth of them."""
    server = psutil.Process(engine.pid)
    chance, most = random.Random(5), 0
    for number in range(1, REQUESTS + 1):
        ask(engine, f"{number % 7} {OPENING[: chance.randint(40, 250)]}", 3)
        now = checkpoints(engine)
        most = max(most, now["bytes"])
        if number % max(1, REQUESTS // 10) == 0:
            rss = server.memory_info().rss / (1 << 20)
            print(f"{number:6} requests  RSS {rss:7.2f} MiB  " + "  ".join(f"{k} {v}" for k, v in now.items()))
    print(f"most bytes of checkpoints seen: {most:,} of {BUDGET_MIB << 20:,}")
    full = ask(engine, "x" * 1950, 4)
    print(f"a prompt of {full['usage']['prompt_tokens']} of 2048 cells: answered")


def main() -> None:
    """Start a server, soak it, end it."""
    with served(own_programs(), HYBRID, "--ctx-checkpoints-mib", str(BUDGET_MIB), *OPTIONS.split()) as engine:
        soak(engine)


if __name__ == "__main__":
    main()
