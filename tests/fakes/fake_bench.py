"""A stand-in for llama-bench: prints two lines of `-o jsonl` at once, misbehaves on demand.

FAKE_BENCH_REFUSES=tcq4_0    that K type ends with an error           FAKE_BENCH_SILENT=1     no line at all, exit 0
FAKE_BENCH_WAITS=path        goes on only when that file exists       FAKE_BENCH_LOG=path     one line for each run
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

SPEEDS = {"f16": 100.0, "q8_0": 150.0}


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    for word in ("m", "ctk", "ctv", "d", "p", "n", "r", "o", "t", "ngl"):
        parser.add_argument(f"-{word}")
    asked = parser.parse_args()
    if log := os.environ.get("FAKE_BENCH_LOG"):
        with open(log, "a") as file:
            file.write(f"{asked.ctk}/{asked.ctv} {asked.d}\n")
    print("ggml: some words on stderr", file=sys.stderr, flush=True)
    if asked.ctk == os.environ.get("FAKE_BENCH_REFUSES"):
        print("error: failed to create context", file=sys.stderr)
        sys.exit(1)
    while (path := os.environ.get("FAKE_BENCH_WAITS")) and not Path(path).exists():
        time.sleep(0.02)
    if not os.environ.get("FAKE_BENCH_SILENT"):
        decode = SPEEDS.get(asked.ctk, 50.0) / (1 + int(asked.d) / 4096)
        for n_prompt, n_gen, rate in ((int(asked.p), 0, 10 * decode), (0, int(asked.n), decode)):
            print(json.dumps({"n_prompt": n_prompt, "n_gen": n_gen, "avg_ts": rate}), flush=True)


if __name__ == "__main__":
    main()
