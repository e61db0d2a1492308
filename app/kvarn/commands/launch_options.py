"""The options that describe a launch, shared by `kvarn plan`, `kvarn serve` and every later command.

A command takes `settings: LaunchSettings` like any other value; `takes_launch_settings` shows Typer
the options of `launch_settings` in its place. Host, port, alias and key are `serve`'s own options.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from kvarn.domain.launch.launch_plan import FlashAttention, LaunchSettings

_DEFAULT = LaunchSettings()
_PANEL = "Launch settings"

Model = Annotated[str, typer.Argument(metavar="MODEL", help="A path, a name from `kvarn models`, or `starter`.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def _option(*names: str, text: str, metavar: str | None = None) -> Any:
    return typer.Option(*names, help=text, metavar=metavar, rich_help_panel=_PANEL, show_default=False)


def launch_settings(
    kv: Annotated[
        str, _option("--kv", text="K and V cache type: `q8_0`, or `q8_0/q4_0` for K/V.", metavar="T|K/V")
    ] = "",
    kv_k: Annotated[str, _option("--kv-k", text="K cache type (f16).", metavar="T")] = "",
    kv_v: Annotated[str, _option("--kv-v", text="V cache type (f16).", metavar="T")] = "",
    ctx: Annotated[
        int, _option("--ctx", text=f"Context tokens of each slot ({_DEFAULT.context_tokens}).", metavar="N")
    ] = _DEFAULT.context_tokens,
    slots: Annotated[int, _option("--slots", text="Requests served at the same time (1).", metavar="N")] = 1,
    unified: Annotated[bool, _option("--unified", text="Slots share one pool of --ctx tokens.")] = False,
    ngl: Annotated[
        int | None, _option("--ngl", text="Layers kept on the GPU; the engine decides when left out.", metavar="N")
    ] = None,
    flash_attn: Annotated[
        FlashAttention, _option("--flash-attn", text="Flash attention: auto, on or off (auto).")
    ] = FlashAttention.AUTO,
    threads: Annotated[int | None, _option("--threads", text="CPU threads; the engine decides.", metavar="N")] = None,
    batch: Annotated[
        int, _option("--batch", text="Prompt tokens handled in one go (2048).", metavar="N")
    ] = _DEFAULT.batch_tokens,
    ubatch: Annotated[
        int, _option("--ubatch", text="Tokens in one compute step (512).", metavar="N")
    ] = _DEFAULT.ubatch_tokens,
    speculation: Annotated[
        str, _option("--speculation", text="Speculative decoding, e.g. draft-mtp (none).", metavar="KIND")
    ] = _DEFAULT.speculation,
    fixed_drafts: Annotated[
        bool, _option("--fixed-drafts", text="Always draft the full length instead of what pays off.")
    ] = False,
    swa_full: Annotated[bool, _option("--swa-full", text="Keep the full context in sliding-window layers.")] = False,
    kv_pad: Annotated[
        str,
        _option(
            "--kv-pad", text="Cells attended are rounded up to N (256); auto grows with the text.", metavar="auto|N"
        ),
    ] = str(_DEFAULT.kv_pad),
    ctx_checkpoints_mib: Annotated[
        int | None,
        _option(
            "--ctx-checkpoints-mib",
            text="RAM all context checkpoints may take, 0 for none; the engine decides when left out.",
            metavar="N",
        ),
    ] = None,
    no_mmproj: Annotated[bool, _option("--no-mmproj", text="Leave out the image or audio projector.")] = False,
    engine_arg: Annotated[
        list[str] | None,
        _option("--engine-arg", text="One more argument for the engine; may be repeated.", metavar="ARG"),
    ] = None,
) -> LaunchSettings:
    """Build the settings a command line describes. Raises typer.BadParameter for contradictions."""
    k, v = _kv_types(kv, kv_k, kv_v)
    return LaunchSettings(
        kv_k=k,
        kv_v=v,
        context_tokens=ctx,
        slots=slots,
        kv_unified=unified,
        gpu_layers=ngl,
        flash_attention=flash_attn,
        threads=threads,
        batch_tokens=batch,
        ubatch_tokens=ubatch,
        speculation=speculation,
        adaptive_drafts=not fixed_drafts,
        swa_full=swa_full,
        kv_pad=_kv_pad(kv_pad),
        checkpoints_mib=ctx_checkpoints_mib,
        use_mmproj=not no_mmproj,
        extra_args=tuple(engine_arg or ()),
    )


def _kv_types(kv: str, kv_k: str, kv_v: str) -> tuple[str, str]:
    if kv and (kv_k or kv_v):
        raise typer.BadParameter("give either --kv, or --kv-k and --kv-v")
    both_k, _, both_v = kv.partition("/")
    if "/" in kv and not (both_k and both_v):
        raise typer.BadParameter("write K and V as `q8_0/q4_0`", param_hint="--kv")
    return kv_k or both_k or _DEFAULT.kv_k, kv_v or both_v or both_k or _DEFAULT.kv_v


def _kv_pad(text: str) -> int | None:
    if text != "auto" and not text.isdecimal():
        raise typer.BadParameter("give `auto` or a number of cells", param_hint="--kv-pad")
    return None if text == "auto" else int(text)


def takes_launch_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Replace a command's `settings: LaunchSettings` parameter by the options of `launch_settings`."""
    options = inspect.signature(launch_settings, eval_str=True).parameters
    own = inspect.signature(command, eval_str=True).parameters.copy()
    del own["settings"]

    @functools.wraps(command)
    def with_options(**given: Any) -> None:
        chosen = {name: given.pop(name) for name in options}
        command(**given, settings=launch_settings(**chosen))

    shown = [*own.values(), *options.values()]
    keyword = inspect.Parameter.KEYWORD_ONLY
    vars(with_options)["__signature__"] = inspect.Signature([p.replace(kind=keyword) for p in shown])
    vars(with_options)["__annotations__"] = {p.name: p.annotation for p in shown}
    return with_options
