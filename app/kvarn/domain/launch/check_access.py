"""Who can reach the server: host, port, key, and the name it answers to."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from kvarn.domain.launch.launch_plan import (
    DEFAULT_PORT,
    EVERY_INTERFACE,
    LOOPBACK,
    LaunchSettings,
    PlanProblem,
    Severity,
)

_HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*\.?")
_MAX_ALIAS = 200


def is_loopback(host: str) -> bool:
    """True when only programs on this machine can connect."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def check_access(settings: LaunchSettings, *, has_api_key: bool) -> Iterator[PlanProblem]:
    """Problems of the address; a server open to the network needs a key."""
    yield from _port(settings.port)
    if not _is_host(settings.host):
        yield PlanProblem(
            code="host-not-valid",
            message=f"“{settings.host}” is not an address to listen on.",
            remedy=f"Use {LOOPBACK} for this machine alone, or {EVERY_INTERFACE} for the local network.",
            field="host",
        )
    elif not is_loopback(settings.host) and not has_api_key:
        yield PlanProblem(
            code="lan-without-key",
            message=f"Listening on {settings.host} lets other machines in, and no API key is set.",
            remedy=f"Set an API key, or listen on {LOOPBACK} only.",
            field="host",
        )
    if not all(c.isprintable() for c in settings.alias) or len(settings.alias) > _MAX_ALIAS:
        yield PlanProblem(
            code="alias-not-valid",
            message="The name shown to clients must be one printable line of at most 200 characters.",
            remedy="Choose a shorter plain name, or leave it empty to use the model's own.",
            field="alias",
        )


def _port(port: int) -> Iterator[PlanProblem]:
    if not 1 <= port <= 65535:
        yield PlanProblem(
            code="port-out-of-range",
            message=f"Port {port} does not exist.",
            remedy=f"Choose between 1024 and 65535; {DEFAULT_PORT} is usual.",
            field="port",
        )
    elif port < 1024:
        yield PlanProblem(
            code="port-privileged",
            message=f"Port {port} is reserved for system services on most machines.",
            remedy=f"Choose a port from 1024 on; {DEFAULT_PORT} is usual.",
            severity=Severity.WARNS,
            field="port",
        )


def _is_host(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        # All digits and dots but no address, e.g. 127.0.0.256: a typing error, not a name.
        return _HOST_NAME.fullmatch(host) is not None and not re.fullmatch(r"[\d.]+", host)
    return True
