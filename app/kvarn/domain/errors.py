"""Our exceptions: broken promises only; expected trouble is a value (`PlanProblem`, `ModelProblem`).

KvarnError
├── EngineNotFoundError   no usable engine; lists every place looked in
├── EngineCallError       an engine program or the worker answered something unusable
├── ModelNotFoundError    a name or path on the command line matches no model
├── SettingsError         a value cannot be stored or read
├── ProfileError          a profile cannot be saved, read or imported
├── CompareError          a comparison cannot be made as asked
└── ResultError           stored results cannot be read or kept

Every message is one sentence a person can act on; `detail` holds the machine's own words.
"""

from __future__ import annotations


class KvarnError(Exception):
    """Base of all errors whose message may be shown to a user as it is."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.detail = detail


class EngineNotFoundError(KvarnError):
    """No usable engine was found."""


class EngineCallError(KvarnError):
    """An engine program or the worker process answered something unusable."""


class ModelNotFoundError(KvarnError):
    """A model named by the user does not exist or is ambiguous."""


class SettingsError(KvarnError):
    """A setting cannot be stored or read."""


class ProfileError(KvarnError):
    """A launch profile cannot be saved, read or imported."""


class CompareError(KvarnError):
    """A comparison cannot be made as asked."""


class ResultError(KvarnError):
    """Stored results cannot be read or kept."""
