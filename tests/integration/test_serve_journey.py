"""From `kvarn serve starter` to the official client's answers and a clean end: the product as a script meets it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import openai
import psutil
import pytest

import kvarn

pytestmark = [pytest.mark.engine, pytest.mark.timeout(300)]

READY_S = 100.0
STOP_S = 50.0
"""Neither is a promise: how soon a stop is done is measured with the stand-in, over several tries."""
KV_Q8_0_BYTES = 8192 * 30 * 2 * (3 * 64 // 32 * 34)
"""Cells x layers x (K and V) x bytes of a row of 3 heads of 64 in q8_0."""


class Served:
    """One `kvarn serve --json` with its lines collected as they come."""

    def __init__(self, home: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        env = os.environ | {"PYTHONPATH": str(Path(kvarn.__file__).parents[1]), "KVARN_HOME": str(home)}
        # One thread: on a busy machine several that wait for each other are slower than one.
        words = ["serve", "starter", "--kv", "q8_0", "--ctx", "8192", "--threads", "1", "--port", str(port), "--json"]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kvarn", *words], text=True, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.events: list[dict] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def first(self, name: str, condition=lambda event: True) -> dict | None:
        """The first such event, if there was one by now."""
        return next((event for event in list(self.events) if event["event"] == name and condition(event)), None)

    def wait_for(self, name: str, condition=lambda event: True, seconds: float = READY_S) -> dict:
        """The first such event, awaited."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if event := self.first(name, condition):
                return event
            assert self.process.poll() is None, self.process.stderr.read()
            time.sleep(0.05)
        raise AssertionError(f"no such {name} event within {seconds} s; last: {self.events[-3:]}")

    def interrupt(self) -> float:
        """SIGINT; seconds until the program has ended."""
        begun = time.monotonic()
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)
        self.close()
        return time.monotonic() - begun

    def close(self) -> None:
        """End it by force if need be and join the reader."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()
        self.process.stderr.close()


def is_decoding(event: dict) -> bool:
    """A line of telemetry that shows a decode speed."""
    return (event["decode_tok_per_s"] or 0) > 0


@pytest.fixture
def served(tmp_path: Path):
    running = Served(tmp_path / "kvarn")
    yield running
    if running.process.returncode is None:
        running.close()


def test_an_editor_can_rely_on_the_endpoint_and_a_script_sees_it_live(served: Served) -> None:
    ready = served.wait_for("ready")
    assert (ready["kv_k"], ready["kv_v"], ready["context_per_slot"]) == ("q8_0", "q8_0", 8192)
    assert ready["kv_bytes"] == KV_Q8_0_BYTES

    with openai.OpenAI(base_url=ready["endpoint"], api_key="none", max_retries=0, timeout=60) as client:
        assert [model.id for model in client.models.list()] == [ready["model"]]
        stream = client.chat.completions.create(
            model=ready["model"],
            messages=[{"role": "user", "content": "Tell a long story about a mill by a river."}],
            max_tokens=8000,
            stream=True,
            extra_body={"ignore_eos": True},
        )
        # Until it was seen: a fast machine writes 200 tokens between two lines of telemetry.
        chunks = 0
        for chunk in stream:
            chunks += bool(chunk.choices and chunk.choices[0].delta.content)
            if chunks > 100 and served.first("telemetry", is_decoding):
                break
        stream.close()
        assert chunks > 100

        def count(first: int) -> str:
            prompt = " ".join(str(n) for n in range(first, first + 4))
            return client.completions.create(model="", prompt=prompt, max_tokens=4, temperature=0).choices[0].text

        with ThreadPoolExecutor(8) as callers:
            answers = list(callers.map(count, range(1, 9)))
        assert [answer.split()[0] for answer in answers] == [str(first + 4) for first in range(1, 9)]

        with pytest.raises(openai.BadRequestError) as refused:
            client.completions.create(model="", prompt="word " * 9000, max_tokens=1)
        assert refused.value.body["n_ctx"] == 8192

    served.wait_for("telemetry", is_decoding)
    served.wait_for("telemetry", lambda event: (event["graph_builds_per_min"] or 0) > 0)
    children = psutil.Process(served.process.pid).children(recursive=True)
    assert ready["pid"] in {child.pid for child in children}
    assert served.interrupt() < STOP_S
    assert served.process.returncode == 0
    assert not [child for child in children if child.is_running()]
