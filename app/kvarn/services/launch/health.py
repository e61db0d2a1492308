"""Asks an address whether an engine is ready there, and whether it is the child we started."""

from __future__ import annotations

import contextlib

import httpx
import msgspec

from kvarn.domain.launch.command_line import served_name
from kvarn.domain.launch.launch_plan import LaunchPlan
from kvarn.services.bounded_get import bounded_get
from kvarn.services.launch.port_owner import listens


class _Model(msgspec.Struct):
    id: str


class _Models(msgspec.Struct):
    data: list[_Model]


class HealthCheck:
    """One connection to the address of a plan. A healthy stranger must never be taken for our engine."""

    def __init__(self, plan: LaunchPlan, pid: int, api_key: str | None) -> None:
        self._plan = plan
        self._pid = pid
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        # Loopback never goes through a proxy the user may have set for the web.
        self._client = httpx.Client(base_url=plan.base_url, headers=headers, timeout=1.0, trust_env=False)

    def close(self) -> None:
        """Give the connection up."""
        self._client.close()

    def ask(self) -> tuple[bool, bool]:
        """Whether somebody answers as ready there, and whether it is our child."""
        try:
            if bounded_get(self._client, "/health").status != httpx.codes.OK:
                return False, False
        except httpx.HTTPError:
            return False, False
        return True, listens(self._pid, self._plan.settings.port) is not False and self._is_named_as_asked()

    def _is_named_as_asked(self) -> bool:
        with contextlib.suppress(httpx.HTTPError, msgspec.DecodeError, RecursionError):
            models = msgspec.json.decode(bounded_get(self._client, "/v1/models").content, type=_Models)
            return any(model.id == served_name(self._plan) for model in models.data)
        return False
