"""LaunchPlan + EngineBuild -> argv and environment. KV types become flags here and nowhere else."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from kvarn.domain.launch.checkpoint_bytes import OPTION as CHECKPOINTS_OPTION
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.launch_plan import LaunchPlan, LaunchSettings

_CONTROL = re.compile(r"[\x00-\x1f\x7f]+")


class EngineCommand(msgspec.Struct, frozen=True):
    """What to start. `env` holds only what is added to the console's own environment."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}


def plan_to_command(plan: LaunchPlan, build: EngineBuild, api_key_file: Path | None) -> EngineCommand:
    """Translate a legal plan for one engine; an option that engine lacks is left out.

    Raises ValueError unless paths are absolute: the child must not depend on our working folder, and
    a file named `--model.gguf` must not look like an option.
    """
    groups = (
        _files(plan),
        _address(plan, api_key_file),
        _context(plan),
        _compute(plan.settings),
        _speculation(plan.settings),
        _watching(build),
    )
    ours = [words for group in groups for words in group if _is_offered(words[0], build)]
    argv = [str(build.server), *(word for words in ours for word in words), *plan.settings.extra_args]
    return EngineCommand(tuple(argv), ENGINE_ENVIRONMENT)


def served_name(plan: LaunchPlan) -> str:
    """The name `/v1/models` will show. The engine splits aliases at commas."""
    return _CONTROL.sub(" ", plan.alias or plan.model_title).replace(",", " ").strip() or "model"


_ALWAYS = {"--model", "--host", "--port", "--ctx-size", "--cache-type-k", "--cache-type-v", "--api-key-file"}
"""Never left out silently: without these the engine would run something else than was planned."""


def _is_offered(option: str, build: EngineBuild) -> bool:
    return not build.flags or option in _ALWAYS or build.offers(option)


ENGINE_ENVIRONMENT = {"GGML_NO_BACKTRACE": "1"}
"""On an abort ggml would call a debugger on itself, which holds the port and memory for seconds."""


Words = tuple[str, ...]


def _files(plan: LaunchPlan) -> list[Words]:
    words: list[Words] = [("--model", _absolute(plan.model_path))]
    if plan.mmproj and plan.settings.use_mmproj:
        words.append(("--mmproj", _absolute(plan.mmproj)))
    words.append(("--offline",))
    return words


def _absolute(path: Path) -> str:
    if not path.is_absolute():
        raise ValueError(f"{path} is not absolute")
    return str(path)


def _address(plan: LaunchPlan, api_key_file: Path | None) -> list[Words]:
    s = plan.settings
    words: list[Words] = [("--alias", served_name(plan)), ("--host", s.host), ("--port", str(s.port))]
    # The engine's own default lets any web page use the endpoint, credentials included.
    words.append(("--cors-origins", "localhost"))
    if api_key_file:
        words.append(("--api-key-file", _absolute(api_key_file)))
    return words


def _context(plan: LaunchPlan) -> list[Words]:
    s = plan.settings
    words: list[Words] = [("--ctx-size", str(plan.total_context_tokens)), ("--parallel", str(s.slots))]
    words.append(("--kv-unified",) if s.kv_unified else ("--no-kv-unified",))
    words += [("--cache-type-k", s.kv_k), ("--cache-type-v", s.kv_v), ("--flash-attn", s.flash_attention.value)]
    if s.swa_full:
        words.append(("--swa-full",))
    words.append(("--kv-pad", "auto" if s.kv_pad is None else str(s.kv_pad)))
    if s.checkpoints_mib is not None:
        words.append((CHECKPOINTS_OPTION, str(s.checkpoints_mib)))
    return words


def _compute(s: LaunchSettings) -> list[Words]:
    words: list[Words] = [("--batch-size", str(s.batch_tokens)), ("--ubatch-size", str(s.ubatch_tokens))]
    if s.threads is not None:
        words.append(("--threads", str(s.threads)))
    if s.gpu_layers is not None:
        words.append(("--gpu-layers", str(s.gpu_layers)))
    return words


def _speculation(s: LaunchSettings) -> list[Words]:
    if s.speculation == "none":
        return []
    adaptive: list[Words] = [("--spec-adaptive",)] if s.adaptive_drafts else []
    return [("--spec-type", s.speculation), *adaptive]


def _watching(build: EngineBuild) -> list[Words]:
    words: list[Words] = [("--metrics",), ("--slots",), ("--log-colors", "off")]
    # One option under two names, depending on the engine's age.
    words.append(("--no-ui",) if build.offers("--no-ui") else ("--no-webui",))
    return words
