"""Whether a port can be had, who holds it, and which one is free. Decided by really binding it."""

from __future__ import annotations

import errno
import os
import socket
import sys

import psutil

from kvarn.domain.launch.launch_plan import PlanProblem
from kvarn.services.launch.leftovers import engine_text, running_engines

_TRIES = 200


def port_problem(host: str, port: int) -> PlanProblem | None:
    """Why the engine could not listen there, None when it can. Takes milliseconds."""
    if not 1 <= port <= 65535:
        return _problem("port-out-of-range", f"{port} is not a port: ports go from 1 to 65535.", host, 5827)
    error = _bind_error(host, port)
    if error is None:
        return None
    if error == errno.EACCES:
        return _problem("port-privileged", f"Port {port} needs administrator rights.", host, 5827)
    if error == errno.EADDRINUSE:
        return _problem("port-taken", f"Port {port} is used by {owner_of(port)}.", host, port)
    return PlanProblem(
        code="host-unusable",
        message=f"This machine cannot listen on {host}: {os.strerror(error)}.",
        remedy="Use 127.0.0.1, or 0.0.0.0 for all interfaces.",
        field="host",
    )


def _problem(code: str, message: str, host: str, near: int) -> PlanProblem:
    free = next_free_port(host, near)
    return PlanProblem(code=code, message=message, remedy=f"Port {free} is free.", field="port")


def next_free_port(host: str, start: int) -> int:
    """The first port from `start` upwards that can be had now; any free one when 200 are taken."""
    first = min(max(start, 1024), 65535)
    candidates = range(first, min(first + _TRIES, 65536))
    return next((port for port in candidates if _bind_error(host, port) is None), _any_free_port(host))


def _any_free_port(host: str) -> int:
    with socket.socket(_family(host)) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            probe.bind(("::1" if _family(host) == socket.AF_INET6 else "127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _bind_error(host: str, port: int) -> int | None:
    """errno of binding and listening as the engine would."""
    with socket.socket(_family(host)) as probe:
        if sys.platform != "win32":
            # As the engine does: a port in TIME_WAIT is free. On Windows it would also admit thieves.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except socket.gaierror:
            return errno.EADDRNOTAVAIL
        except OSError as error:
            return error.errno or errno.EADDRNOTAVAIL
    return None


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def owner_of(port: int) -> str:
    """Name and process id of who listens there, an engine of ours as such, or that it cannot be seen."""
    pid = next((c.pid for c in _listeners() if c.laddr.port == port and c.pid), None)
    ours = next((note for note in running_engines() if note.port == port and pid in (None, note.pid)), None)
    if ours is not None:
        return engine_text(ours)
    if pid is None:
        return "another program (which one, the system does not tell)"
    try:
        return f"{psutil.Process(pid).name()} (process {pid})"
    except psutil.Error:
        return f"process {pid}"


def _listeners() -> list[psutil._common.sconn]:
    try:
        return [c for c in psutil.net_connections(kind="tcp") if c.status == psutil.CONN_LISTEN]
    except psutil.Error:
        return []


def listens(pid: int, port: int) -> bool | None:
    """Whether that process, or a child of it, listens on the port; None where the system does not tell."""
    try:
        process = psutil.Process(pid)
        family = [process, *process.children(recursive=True)]
        return any(_listens(member, port) for member in family)
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return None


def _listens(process: psutil.Process, port: int) -> bool:
    connections = process.net_connections(kind="tcp")
    return any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in connections)
