from __future__ import annotations

import mmap
import os
import subprocess
import sys

import pytest

from kvarn.services.live import machine_probe
from kvarn.services.live.machine_probe import MachineProbe

HOLD = """
import mmap, sys
file = open(sys.argv[1], 'rb')
mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
private = bytearray(24 << 20)
for at in range(0, len(mapped), 4096): mapped[at]
for at in range(0, len(private), 4096): private[at] = 1
print('ready', flush=True)
sys.stdin.read()
"""


def test_the_machine_has_used_memory_between_nothing_and_all():
    reading = MachineProbe().read()
    assert 0 < reading.ram_used_bytes < reading.ram_total_bytes
    assert reading.ram_used_bytes + reading.ram_available_bytes == reading.ram_total_bytes
    assert reading.engine_rss_bytes is None


def test_the_first_look_has_no_cpu_share_because_a_share_needs_a_time(monkeypatch):
    monkeypatch.setattr(machine_probe, "LEAST_INTERVAL_S", 0.0)
    probe = MachineProbe()
    first, second = probe.read(os.getpid()), probe.read(os.getpid())
    assert first.cpu_percent is None
    assert first.engine_cpu_percent is None
    assert second.cpu_percent is not None
    assert second.engine_cpu_percent >= 0


def test_a_look_right_after_another_tells_the_share_of_that_one(monkeypatch):
    monkeypatch.setattr(machine_probe, "LEAST_INTERVAL_S", 3600.0)
    monkeypatch.setattr(machine_probe.psutil, "cpu_percent", lambda interval: 100.0)
    probe = MachineProbe()
    assert [probe.read().cpu_percent for _ in range(2)] == [None, None]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the file-backed share")
def test_mapped_weights_and_private_memory_of_another_process_are_told_apart(tmp_path):
    model = tmp_path / "weights"
    model.write_bytes(b"w" * (40 << 20))
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(model)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with child:
        assert child.stdout.readline() == "ready\n"
        reading = MachineProbe().read(child.pid)
        child.stdin.close()
    assert mmap.PAGESIZE <= 1 << 16
    assert 40 << 20 <= reading.engine_mapped_bytes < 60 << 20
    assert 24 << 20 <= reading.engine_private_bytes < 48 << 20
    assert reading.engine_rss_bytes == reading.engine_mapped_bytes + reading.engine_private_bytes


def test_a_process_that_is_gone_is_absent_and_not_zero():
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    probe = MachineProbe()
    assert probe.read(child.pid).engine_rss_bytes > 0
    child.communicate(b"\n")
    reading = probe.read(child.pid)
    assert reading.engine_rss_bytes is None
    assert reading.engine_cpu_percent is None
    assert reading.ram_total_bytes > 0
