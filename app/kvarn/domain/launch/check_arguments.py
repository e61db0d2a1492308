"""Whether speculation and the extra engine arguments of a draft can work, and give nothing away."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from kvarn.domain.launch.engine_arguments import OWN_FIELDS, SECRET_FLAGS, flag_of
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.kv_bytes import drafts_with_mtp
from kvarn.domain.launch.launch_plan import LaunchSettings, PlanProblem
from kvarn.domain.library.model_facts import ModelFacts

SPECULATION = (
    "none",
    "draft-simple",
    "draft-eagle3",
    "draft-mtp",
    "draft-dflash",
    "draft-dspark",
    "ngram-simple",
    "ngram-map-k",
    "ngram-map-k4v",
    "ngram-mod",
    "ngram-cache",
)
"""Values of `--spec-type` in the pinned base."""
_NEED_DRAFT_MODEL = ("draft-simple", "draft-eagle3", "draft-dflash", "draft-dspark")
_DRAFT_MODEL = frozenset({"--spec-draft-model", "-md", "--model-draft", "--spec-draft-hf", "-hfd", "--hf-repo-draft"})


def check_speculation(facts: ModelFacts, settings: LaunchSettings, build: EngineBuild) -> Iterator[PlanProblem]:
    """Problems of the chosen kind of speculative decoding."""
    kinds = settings.speculation.split(",")
    if kinds == ["none"]:
        return
    if build.flags and not build.offers("--spec-type"):
        yield _speculation("This engine has no speculative decoding.", "Choose none.", "speculation-not-offered")
    for kind in kinds:
        if kind not in SPECULATION:
            near = difflib.get_close_matches(kind.lower(), SPECULATION, n=1, cutoff=0.4)
            remedy = f"Did you mean {near[0]}?" if near else f"Choose one of {', '.join(SPECULATION)}."
            yield _speculation(f"“{kind}” is not a kind of speculation.", remedy, "speculation-unknown")
    if drafts_with_mtp(settings) and not facts.hparams.get("nextn_predict_layers"):
        message = "This model has no multi-token-prediction block to draft with."
        yield _speculation(message, "Choose none or an ngram kind.", "no-prediction-block")
    wanting = next((kind for kind in kinds if kind in _NEED_DRAFT_MODEL), None)
    if wanting and not _DRAFT_MODEL & set(settings.extra_args):
        message = f"{wanting} needs a second, smaller model, and none is named."
        yield _speculation(message, "Name one with --spec-draft-model in the extra arguments.", "no-draft-model")


def _speculation(message: str, remedy: str, code: str) -> PlanProblem:
    return PlanProblem(code=code, message=message, remedy=remedy, field="speculation")


def check_arguments(settings: LaunchSettings, build: EngineBuild) -> Iterator[PlanProblem]:
    """Problems of the extra arguments: secrets, repetitions of our own settings, flags the engine lacks."""
    for argument in settings.extra_args:
        flag = flag_of(argument)
        if not all(c.isprintable() for c in argument):
            shown = argument.encode("unicode_escape").decode()[:40]
            yield _argument("argument-not-printable", f"“{shown}” holds control characters.", "Remove them.")
        elif flag in SECRET_FLAGS:
            message = f"{flag} would show a secret to every user of this machine in the process list."
            yield _argument("secret-in-arguments", message, "Use Kvarn's API key setting or an environment variable.")
        elif flag == "--api-key-file":
            remedy = "Use Kvarn's API key setting instead."
            yield _argument("argument-duplicates-setting", "Kvarn hands the key file to the engine itself.", remedy)
        elif flag in OWN_FIELDS:
            name = OWN_FIELDS[flag].replace("_", " ")
            message = f"{flag} repeats a setting that Kvarn makes itself."
            yield _argument("argument-duplicates-setting", message, f"Remove it and use the setting “{name}”.")
        elif flag and flag.startswith("--") and build.flags and not build.offers(flag):
            near = difflib.get_close_matches(flag, sorted(build.flags), n=1, cutoff=0.7)
            remedy = f"Did you mean {near[0]}?" if near else "Remove it; `llama-server --help` lists what there is."
            yield _argument("argument-not-offered", f"This engine does not know {flag}.", remedy)


def _argument(code: str, message: str, remedy: str) -> PlanProblem:
    return PlanProblem(code=code, message=message, remedy=remedy, field="extra_args")
