from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hand_clock import HandClock
from kvarn.services.live.gpu_probe import GpuProbe

FAKE = Path(__file__).parents[2] / "fakes" / "fake_nvml"
GIB = 1 << 30


@pytest.fixture
def machine(monkeypatch):
    """A probe on a machine of the named kind."""
    probes = []

    def make(case: str) -> tuple[GpuProbe, HandClock]:
        monkeypatch.setenv("FAKE_NVML", case)
        monkeypatch.syspath_prepend(str(FAKE))
        monkeypatch.delitem(sys.modules, "pynvml", raising=False)
        clock = HandClock()
        probes.append(GpuProbe(clock))
        return probes[-1], clock

    yield make
    for probe in probes:
        probe.close()
    sys.modules.pop("pynvml", None)


def test_a_healthy_card_tells_everything_in_the_units_of_the_names(machine):
    probe, _ = machine("ok")
    (card,) = probe.read(os.getpid())
    assert probe.reason == ""
    assert probe.driver_version == "590.10"
    assert (card.name, card.memory_total_bytes, card.memory_used_bytes) == ("Stand-in GPU 0", 24 * GIB, 3 * GIB)
    assert card.engine_memory_bytes == 2 * GIB
    assert (card.utilization_percent, card.temperature_c, card.clock_mhz) == (37, 55, 1800)
    assert (card.power_w, card.power_limit_w) == (112.5, 350)
    assert card.reasons == {}
    assert not card.memory_is_shared


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        ("nolib", "no NVIDIA driver is installed (its NVML library was not found)"),
        ("mismatch", "driver and library differ: restart the computer"),
        ("nocards", "the NVIDIA driver lists no GPU"),
    ],
)
def test_a_machine_without_a_usable_driver_gets_one_sentence_and_is_asked_once_a_minute(machine, case, reason):
    probe, clock = machine(case)
    for _ in range(61):
        assert probe.read() == ()
        clock.t += 0.98
    assert probe.reason == reason
    assert sys.modules["pynvml"].inits == 1
    clock.t += 1
    probe.read()
    assert sys.modules["pynvml"].inits == 2


def test_a_driver_that_comes_back_is_found_again(machine, monkeypatch):
    probe, clock = machine("mismatch")
    assert probe.read() == ()
    monkeypatch.setenv("FAKE_NVML", "ok")
    clock.t += 61
    assert len(probe.read()) == 1
    assert probe.reason == ""


def test_a_missing_module_is_a_sentence(machine, monkeypatch):
    probe, _ = machine("ok")
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert probe.read() == ()
    assert "nvidia-ml-py" in probe.reason


def test_one_refused_query_costs_that_field_alone(machine):
    probe, _ = machine("noload")
    (card,) = probe.read()
    assert card.utilization_percent is None
    assert card.temperature_c is None
    assert card.reasons["utilization_percent"] == "this GPU does not offer it"
    assert card.memory_used_bytes == 3 * GIB
    assert card.power_w == 112.5


def test_a_card_that_shares_the_systems_memory_shows_that_memory_labelled_as_shared(machine):
    probe, _ = machine("shared")
    (card,) = probe.read()
    assert card.memory_is_shared
    assert 0 < card.memory_used_bytes < card.memory_total_bytes
    assert "shares" in card.reasons["memory_used_bytes"]
    assert card.power_w is None
    assert card.utilization_percent == 37


def test_a_card_that_drops_off_the_bus_is_named_and_not_polled_to_death(machine):
    probe, clock = machine("lost")
    assert [len(probe.read()) for _ in range(3)] == [1, 1, 0]
    assert "dropped off the bus" in probe.reason
    clock.t += 30
    assert probe.read() == ()
    assert sys.modules["pynvml"].inits == 1


def test_an_engine_the_driver_does_not_list_holds_an_unknown_amount_not_none_of_it(machine):
    probe, _ = machine("hidden")
    (card,) = probe.read(os.getpid())
    assert card.engine_memory_bytes is None
    assert "does not list" in card.reasons["engine_memory_bytes"]


def test_the_real_module_on_this_machine_either_reads_or_gives_a_reason():
    probe = GpuProbe(HandClock())
    cards = probe.read(os.getpid())
    assert bool(cards) != bool(probe.reason)
    probe.close()
