from __future__ import annotations

import re
from pathlib import Path

import pytest

from kvarn.domain.launch.command_line import plan_to_command, served_name
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.launch.launch_plan import FlashAttention, LaunchPlan, LaunchSettings

ALL = frozenset(
    re.findall(
        r"\S+",
        """--model --mmproj --offline --alias --host --port --cors-origins --api-key-file --ctx-size --parallel
        --kv-unified --no-kv-unified --cache-type-k --cache-type-v --flash-attn --swa-full --kv-pad
        --ctx-checkpoints-mib --batch-size --ubatch-size --threads --gpu-layers --spec-type --spec-adaptive --metrics
        --slots --log-colors --no-ui --no-webui""",
    )
)


def build(flags: frozenset[str] = ALL) -> EngineBuild:
    server = Path("/opt/engine/llama-server")
    return EngineBuild(server=server, bin_dir=server.parent, base="b", version="v", is_kvarn=False, flags=flags)


def plan(**settings) -> LaunchPlan:
    return LaunchPlan(
        model_path=Path("/models/a b.gguf"),
        model_title="A model",
        mmproj=Path("/models/mmproj.gguf"),
        alias="tiny",
        settings=LaunchSettings(**settings),
    )


def test_the_whole_command_of_a_plan_with_everything_set() -> None:
    full = plan(
        kv_k="q8_0",
        kv_v="q4_0",
        context_tokens=4096,
        slots=3,
        flash_attention=FlashAttention.ON,
        gpu_layers=20,
        threads=6,
        batch_tokens=1024,
        ubatch_tokens=256,
        speculation="draft-mtp",
        swa_full=True,
        kv_pad=1024,
        checkpoints_mib=512,
        port=5900,
        extra_args=("--seed", "7"),
    )
    command = plan_to_command(full, build(), Path("/state/key"))
    assert command.env == {"GGML_NO_BACKTRACE": "1"}
    assert " ".join(command.argv) == (
        "/opt/engine/llama-server --model /models/a b.gguf --mmproj /models/mmproj.gguf --offline --alias tiny"
        " --host 127.0.0.1 --port 5900 --cors-origins localhost --api-key-file /state/key --ctx-size 12288 --parallel 3"
        " --no-kv-unified --cache-type-k q8_0 --cache-type-v q4_0 --flash-attn on --swa-full --kv-pad 1024"
        " --ctx-checkpoints-mib 512 --batch-size 1024 --ubatch-size 256 --threads 6 --gpu-layers 20"
        " --spec-type draft-mtp --spec-adaptive --metrics --slots --log-colors off --no-ui --seed 7"
    )
    assert "/models/a b.gguf" in command.argv


def test_what_is_left_to_the_engine_is_not_on_the_command_line() -> None:
    argv = plan_to_command(plan(use_mmproj=False), build(), None).argv
    assert not {"--mmproj", "--threads", "--gpu-layers", "--spec-type", "--spec-adaptive", "--swa-full"} & set(argv)
    assert "--api-key-file" not in argv


def test_drafts_of_fixed_length_are_the_engines_own_default() -> None:
    argv = plan_to_command(plan(speculation="ngram-simple", adaptive_drafts=False), build(), None).argv
    assert "--spec-type" in argv
    assert "--spec-adaptive" not in argv


def test_the_padding_is_upstreams_unless_told_and_is_left_out_for_an_engine_without_it() -> None:
    for settings, word in (({}, "256"), ({"kv_pad": None}, "auto")):
        argv = plan_to_command(plan(**settings), build(), None).argv
        assert argv[argv.index("--kv-pad") + 1] == word
    older = build(flags=frozenset({"--batch-size"}))
    assert "--kv-pad" not in plan_to_command(plan(kv_pad=4096), older, None).argv


def test_slots_that_share_one_pool_ask_for_the_pool_itself() -> None:
    argv = plan_to_command(plan(context_tokens=4096, slots=4, kv_unified=True), build(), None).argv
    assert argv[argv.index("--ctx-size") + 1] == "4096"
    assert "--kv-unified" in argv


def test_an_option_the_engine_lacks_is_left_out_but_never_one_that_carries_the_plan() -> None:
    argv = plan_to_command(plan(), build(frozenset({"--model", "--no-webui"})), Path("/k")).argv
    assert not {"--metrics", "--slots", "--cors-origins", "--offline"} & set(argv)
    assert {"--model", "--cache-type-k", "--ctx-size", "--api-key-file", "--no-webui"} <= set(argv)


def test_a_relative_path_is_a_broken_promise() -> None:
    relative = LaunchPlan(
        model_path=Path("--model.gguf"), model_title="m", mmproj=None, alias="", settings=LaunchSettings()
    )
    with pytest.raises(ValueError, match="not absolute"):
        plan_to_command(relative, build(), None)


def test_bytes_of_a_path_that_are_no_utf8_survive() -> None:
    odd = LaunchPlan(
        model_path=Path("/m/\udcff.gguf"), model_title="m", mmproj=None, alias="x", settings=LaunchSettings()
    )
    assert "/m/\udcff.gguf" in plan_to_command(odd, build(), None).argv


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("", "A model"),
        ("a,b", "a b"),
        ("two\nlines\x00", "two lines"),
        ("<b>&amp;", "<b>&amp;"),
        (",", "model"),
    ],
)
def test_the_served_name_is_one_line_and_one_name(alias: str, name: str) -> None:
    named = LaunchPlan(
        model_path=Path("/m.gguf"), model_title="A model", mmproj=None, alias=alias, settings=LaunchSettings()
    )
    assert served_name(named) == name
