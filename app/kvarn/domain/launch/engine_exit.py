"""Exit code, signal and last words of an engine -> ExitReport: a kind, a sentence, a remedy."""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec

from kvarn.domain.launch.exit_report import ExitReport
from kvarn.domain.launch.launch_plan import LaunchPlan

LAST_WORDS_SHOWN = 20


class ExitFacts(msgspec.Struct, frozen=True, kw_only=True):
    """All that is known about one end. `words` are the log lines since the start or, later, since ready."""

    exit_code: int | None
    """As the system gives it; None when a signal ended the process."""
    signal: str | None = None
    """e.g. `SIGKILL`."""
    words: tuple[str, ...] = ()
    was_ready: bool = False
    stop_requested: bool = False
    forced: bool = False
    """We had to end it by force because it ignored the polite request."""
    kernel_killed: bool | None = None
    """Whether the kernel's out-of-memory killer acted meanwhile; None where that cannot be known."""


def explain_exit(facts: ExitFacts, plan: LaunchPlan) -> ExitReport:
    """Say why the engine ended. Never raises; an unknown end is `crashed` or `ended`."""
    kind, message, remedy = _stopped(facts) or _by_words(facts, plan) or _by_signal(facts, plan) or _by_code(facts)
    return ExitReport(
        kind=kind,
        message=message,
        remedy=remedy,
        last_words=facts.words[-LAST_WORDS_SHOWN:],
        exit_code=facts.exit_code,
        signal=facts.signal,
    )


Told = tuple[str, str, str]
"""kind, message, remedy"""


def _stopped(facts: ExitFacts) -> Told | None:
    if not facts.stop_requested:
        return None
    how = "The engine did not react to the request to stop and was ended by force." if facts.forced else "Stopped."
    return "stopped", how, ""


SMALLER = "Choose a smaller K/V type, a shorter context, fewer slots or a smaller model; or free memory first."

_Telling = Callable[[re.Match[str], LaunchPlan], Told]


def _out_of_memory(match: re.Match[str], plan: LaunchPlan) -> Told:
    cells = plan.total_context_tokens
    device = "GPU" if re.search(r"cuda|vk::|vulkan|metal", match.group(0), re.IGNORECASE) else "machine"
    return "out-of-memory", f"The {device} ran out of memory while making room for {cells:,} context tokens.", SMALLER


def _unknown_kv_type(match: re.Match[str], plan: LaunchPlan) -> Told:
    message = f"This engine does not know the cache type {match.group(1)}."
    return (
        "unknown-kv-type",
        message,
        "Choose one of the types this engine lists, or use the engine that came with Kvarn.",
    )


def _v_needs_flash_attention(match: re.Match[str], plan: LaunchPlan) -> Told:
    message = f"A quantised V cache ({plan.settings.kv_v}) needs flash attention, and it is off."
    return "needs-flash-attention", message, "Set flash attention to auto or on, or V to f16."


def _port_taken(match: re.Match[str], plan: LaunchPlan) -> Told:
    return "port-taken", f"Port {plan.settings.port} is used by another program.", "Choose another port."


def _missing_library(match: re.Match[str], plan: LaunchPlan) -> Told:
    message = f"The engine needs the library {match.group(1)}, which this system does not have."
    return "missing-library", message, "Install that library, or rebuild the engine on this machine."


def _bad_option(match: re.Match[str], plan: LaunchPlan) -> Told:
    remedy = "Remove it from the extra engine arguments, or use an engine that has it."
    return "bad-option", f"The engine does not know the option {match.group(1)}.", remedy


def _cannot_run(match: re.Match[str], plan: LaunchPlan) -> Told:
    return (
        "engine-missing",
        f"The engine program could not be run: {match.group(1)}.",
        "Run `kvarn doctor` to check it.",
    )


def _driver(match: re.Match[str], plan: LaunchPlan) -> Told:
    message = "The graphics driver does not fit the CUDA version this engine was built with."
    return "gpu-driver", message, "Update the NVIDIA driver and restart the computer, or rebuild the engine."


def _bad_architecture(match: re.Match[str], plan: LaunchPlan) -> Told:
    message = f"This engine does not know the model architecture {match.group(1)} of {plan.model_path.name!r}."
    return "bad-model", message, "Use a newer engine, or another model."


def _bad_model(match: re.Match[str], plan: LaunchPlan) -> Told:
    reason = match.group(0).strip().rstrip(".")
    message = f"The engine did not accept the model file {plan.model_path.name!r}: {reason}."
    return "bad-model", message, "The file may be damaged, incomplete or of another kind; fetch it again."


def _loading_failed(match: re.Match[str], plan: LaunchPlan) -> Told:
    message = f"The engine could not load the model file {plan.model_path.name!r}."
    return "bad-model", message, "Its last lines below say why; a damaged or incomplete file is the usual reason."


# In order of how much a line tells; the first pattern found in any line wins. Sources: the pinned
# base's common/arg.cpp, tools/server, src/llama-model-loader.cpp, ggml/src/gguf.cpp, ggml-cuda.cu.
_WORDS: tuple[tuple[re.Pattern[str], _Telling], ...] = tuple(
    (re.compile(pattern, re.IGNORECASE), tell)
    for pattern, tell in (
        (r"kvarn: cannot run the engine: (.+)", _cannot_run),
        (r"unsupported cache type: (\S+)", _unknown_kv_type),
        (r"quantized V cache requires flash_attn", _v_needs_flash_attention),
        (r"couldn't bind HTTP server socket", _port_taken),
        (r"error while loading shared libraries: ([^:\s]+)", _missing_library),
        (r"(?:dyld|Library not loaded)[: ]+(\S+)", _missing_library),
        (r"CUDA driver version is insufficient", _driver),
        (r"error: invalid argument: (\S+)", _bad_option),
        (
            r"cudaMalloc failed: out of memory|CUDA error: out of memory|ErrorOutOfDeviceMemory|out of memory"
            r"|failed to allocate|unable to allocate|std::bad_alloc|cannot allocate memory",
            _out_of_memory,
        ),
        (r"unknown model architecture: '?([^']+)'?", _bad_architecture),
        (
            r"invalid magic characters[^,]*|invalid split file[^,]*|(?:failed|unable) to open GGUF file.*"
            r"|tensor '[^']+' data is not within the file bounds|missing tensor '[^']+'"
            r"|failed to read (?:header|key-value pairs|tensor info|magic)|duplicate[d]? (?:key|tensor)[^,]*"
            r"|(?:unsupported|bad|invalid) GGUF version[^,]*|model is corrupted[^,]*",
            _bad_model,
        ),
        (r"failed to load model|error loading model|exiting due to model loading error", _loading_failed),
    )
)


def _by_words(facts: ExitFacts, plan: LaunchPlan) -> Told | None:
    for pattern, tell in _WORDS:
        for line in facts.words:
            # The engine probes memory with a trial load first; its failure alone is not the end.
            match = None if "common_fit_params" in line else pattern.search(line)
            if match:
                return tell(match, plan)
    return None


def _by_signal(facts: ExitFacts, plan: LaunchPlan) -> Told | None:
    name = facts.signal
    if name == "SIGKILL":
        return _killed(facts)
    if name in {"SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"}:
        return "killed", f"Another program, or the system shutting down, asked the engine to end ({name}).", AGAIN
    if name == "SIGILL":
        message = "The engine was built for another processor: it met an instruction this one does not have (SIGILL)."
        return "wrong-build", message, "Rebuild the engine on this machine."
    if name and not facts.was_ready:
        message = f"The engine broke off while reading {plan.model_path.name!r} ({name}): model not accepted."
        return "bad-model", message, "The file is probably damaged or of a kind this engine cannot handle."
    if name:
        return "crashed", f"The engine crashed while serving ({name}).", AGAIN
    return None


AGAIN = "Launch it again; if this repeats, keep the log."


def _killed(facts: ExitFacts) -> Told:
    if facts.kernel_killed:
        return "out-of-memory", "The system ran out of memory and its kernel ended the engine.", SMALLER
    if facts.kernel_killed is None:
        return "killed", "The engine was killed: probably out of memory, or by another program (SIGKILL).", SMALLER
    return "killed", "The engine was killed by another program or user (SIGKILL), not for lack of memory.", AGAIN


# Windows tells a crash by an exit code, an NTSTATUS value.
_NTSTATUS: dict[int, Told] = {
    0xC0000005: ("crashed", "The engine crashed: it read memory that is not its own.", AGAIN),
    0xC0000017: ("out-of-memory", "The system had no memory left for the engine.", SMALLER),
    0xC000001D: ("wrong-build", "The engine was built for another processor.", "Rebuild the engine on this machine."),
    0xC0000135: ("missing-library", "The engine needs a DLL this system does not have.", "Reinstall the engine."),
    0xC0000142: ("missing-library", "A DLL of the engine could not be started.", "Reinstall the engine."),
    0xC000013A: ("killed", "The engine was interrupted from outside.", AGAIN),
    0xC0000409: ("crashed", "The engine stopped itself after an internal error.", AGAIN),
}


def _by_code(facts: ExitFacts) -> Told:
    code = facts.exit_code
    if code is not None and (code & 0xFFFFFFFF) in _NTSTATUS:
        return _NTSTATUS[code & 0xFFFFFFFF]
    when = "while serving" if facts.was_ready else "before it was ready"
    if code == 0:
        return "ended", f"The engine ended {when} although nobody asked it to here; another program may have.", AGAIN
    return "crashed", f"The engine ended {when} with exit code {code}.", "Its last lines below may say why."


def load_stalled(plan: LaunchPlan, silent_s: float, words: tuple[str, ...]) -> ExitReport:
    """The report for a load that shows no life: no log line, no CPU time."""
    return ExitReport(
        kind="load-stalled",
        message=f"Loading {plan.model_path.name!r} stood still for {silent_s:.0f} s and was ended.",
        remedy="A slow or lost drive is the usual reason; copy the model to a local disk and launch again.",
        last_words=words[-LAST_WORDS_SHOWN:],
    )


def stranger_answers(plan: LaunchPlan, words: tuple[str, ...]) -> ExitReport:
    """The report for an answer on our port that is not our engine's."""
    return ExitReport(
        kind="port-taken",
        message=f"Another program answers on port {plan.settings.port}; the engine was ended.",
        remedy="Choose another port.",
        last_words=words[-LAST_WORDS_SHOWN:],
    )
