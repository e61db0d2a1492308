"""A port held in every manner is seen, its owner named, a free one offered; a free one is not called busy."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from kvarn.services.launch.port_owner import listens, next_free_port, port_problem


@contextmanager
def held(port: int, host: str = "127.0.0.1", *, listening: bool = True, shared: bool = False) -> Iterator[None]:
    with socket.socket() as holder:
        if shared:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        holder.bind((host, port))
        if listening:
            holder.listen(1)
        yield


def test_a_free_port_has_no_problem(free_port: int) -> None:
    assert port_problem("127.0.0.1", free_port) is None


def test_a_silent_listener_is_named_and_a_port_that_can_be_had_is_offered(free_port: int) -> None:
    with held(free_port):
        problem = port_problem("127.0.0.1", free_port)
        assert problem is not None
        assert problem.code == "port-taken"
        assert f"(process {os.getpid()})" in problem.message
        offered = next_free_port("127.0.0.1", free_port)
        assert str(offered) in problem.remedy
    assert offered > free_port
    with held(offered):
        pass


@pytest.mark.parametrize(("listening", "shared"), [(False, False), (True, True)])
def test_a_port_bound_without_listening_or_shared_is_taken(free_port: int, listening: bool, shared: bool) -> None:
    with held(free_port, listening=listening, shared=shared):
        problem = port_problem("127.0.0.1", free_port)
    assert problem is not None
    assert problem.code == "port-taken"


def test_a_port_taken_on_all_interfaces_is_taken_on_loopback(free_port: int) -> None:
    with held(free_port, "0.0.0.0", shared=True):
        problem = port_problem("127.0.0.1", free_port)
    assert problem is not None
    assert problem.code == "port-taken"


def test_a_port_left_in_time_wait_is_free(free_port: int) -> None:
    address = ("127.0.0.1", free_port)
    with socket.create_server(address) as server, socket.create_connection(address) as client:
        accepted, _ = server.accept()
        accepted.close()  # closing first leaves the server's side in TIME_WAIT
        assert client.recv(1) == b""
    assert port_problem("127.0.0.1", free_port) is None


@pytest.mark.parametrize("port", [0, -1, 65536, 99999])
def test_a_number_that_is_no_port_never_reaches_the_engine(port: int) -> None:
    problem = port_problem("127.0.0.1", port)
    assert problem is not None
    assert problem.code == "port-out-of-range"


@pytest.mark.parametrize("host", ["203.0.113.7", "no.such.host.invalid"])
def test_an_address_of_another_machine_is_a_problem_of_the_host(host: str, free_port: int) -> None:
    problem = port_problem(host, free_port)
    assert problem is not None
    assert (problem.code, problem.field) == ("host-unusable", "host")


def test_who_listens_is_told_apart_from_who_does_not(free_port: int) -> None:
    assert listens(os.getpid(), free_port) is False
    with held(free_port):
        assert listens(os.getpid(), free_port) is True
        assert listens(1, free_port) in {False, None}
    assert listens(2**22 + 1, free_port) is False


def test_near_the_last_port_some_free_one_is_still_found() -> None:
    assert 1024 <= next_free_port("127.0.0.1", 65535) <= 65535
