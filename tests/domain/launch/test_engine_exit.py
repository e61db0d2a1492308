# ruff: noqa: E501 — log lines are kept as the engine prints them
"""Real last lines of the pinned base's llama-server, and what a person is told about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvarn.domain.launch.engine_exit import ExitFacts, explain_exit
from kvarn.domain.launch.launch_plan import LaunchPlan, LaunchSettings

PLAN = LaunchPlan(
    model_path=Path("/models/tiny.gguf"),
    model_title="tiny",
    mmproj=None,
    alias="tiny",
    settings=LaunchSettings(kv_v="q4_0", context_tokens=131072, port=5999),
)


def explain(*words: str, **facts):
    given = {"exit_code": 1} | facts
    return explain_exit(ExitFacts(words=words, **given), PLAN)


@pytest.mark.parametrize(
    ("line", "kind", "said"),
    [
        ('error while handling argument "-ctk": Unsupported cache type: tbq4_0', "unknown-kv-type", "tbq4_0"),
        ("0.36 E llama_init_from_model: quantized V cache requires flash_attn to be enabled", "needs-flash-attention", "q4_0"),
        ("E srv start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 5999", "port-taken", "5999"),
        ("error: invalid argument: --nosuch", "bad-option", "--nosuch"),
        ("llama-server: error while loading shared libraries: libcublas.so.12: cannot open shared object file: No such file", "missing-library", "libcublas.so.12"),
        ("ggml_backend_cuda_buffer_type_alloc_buffer: allocating 16384.00 MiB on device 0: cudaMalloc failed: out of memory", "out-of-memory", "131,072"),
        ("E ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 274877906944", "out-of-memory", "131,072"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "out-of-memory", "machine"),
        ("E gguf_init_from_reader: invalid magic characters: 'root', expected 'GGUF'", "bad-model", "invalid magic"),
        ("E gguf_init_from_file: failed to open GGUF file '/x.gguf' (No such file or directory)", "bad-model", "No such file"),
        ("E llama_model_load: error loading model: unknown model architecture: 'qwen99'", "bad-model", "qwen99"),
        ("E llama_model_load: error loading model: tensor 'blk.3.ffn_up.weight' data is not within the file bounds, model is corrupted or incomplete", "bad-model", "blk.3.ffn_up.weight"),
        ("E srv  llama_server: exiting due to model loading error", "bad-model", "tiny.gguf"),
        ("kvarn: cannot run the engine: /opt/llama-server: Exec format error", "engine-missing", "Exec format error"),
        ("ggml_cuda_init: failed to initialize CUDA: CUDA driver version is insufficient for CUDA runtime version", "gpu-driver", "driver"),
    ],
)  # fmt: skip
def test_a_telling_last_line_becomes_a_kind_and_a_sentence(line: str, kind: str, said: str) -> None:
    report = explain("I srv llama_server: initializing ...", line, "I srv operator(): cleaning up before exit...")
    assert report.kind == kind
    assert said in report.message
    assert report.message.endswith(".")
    assert report.remedy
    assert line in report.last_words


def test_the_failed_memory_probe_of_an_engine_that_goes_on_is_not_an_explanation() -> None:
    probe = (
        "E common_fit_params: encountered an error while trying to fit params to free device memory: failed to allocate"
    )
    assert explain(probe, exit_code=None, signal="SIGSEGV", was_ready=True).kind == "crashed"


def test_an_abort_while_reading_the_file_is_the_file_not_accepted_rather_than_a_crash() -> None:
    report = explain("GGML_ASSERT(n_layer > 0) failed", exit_code=None, signal="SIGABRT")
    assert report.kind == "bad-model"
    assert "'tiny.gguf'" in report.message
    assert "SIGABRT" in report.message


def test_an_abort_while_serving_is_a_crash() -> None:
    assert explain(exit_code=None, signal="SIGABRT", was_ready=True).kind == "crashed"


@pytest.mark.parametrize(
    ("kernel_killed", "kind", "said"),
    [
        (True, "out-of-memory", "kernel"),
        (False, "killed", "not for lack of memory"),
        (None, "killed", "probably out of memory"),
    ],
)
def test_a_kill_names_the_kernel_when_that_is_known(kernel_killed: bool | None, kind: str, said: str) -> None:
    report = explain(exit_code=None, signal="SIGKILL", kernel_killed=kernel_killed)
    assert report.kind == kind
    assert said in report.message


def test_a_crash_is_not_blamed_on_memory_because_some_other_program_ran_out_of_it() -> None:
    assert explain(exit_code=None, signal="SIGSEGV", was_ready=True, kernel_killed=True).kind == "crashed"


def test_a_polite_signal_from_elsewhere_is_told_as_such() -> None:
    assert "SIGTERM" in explain(exit_code=None, signal="SIGTERM", was_ready=True).message


def test_an_illegal_instruction_means_a_build_for_another_processor() -> None:
    assert explain(exit_code=None, signal="SIGILL").kind == "wrong-build"


def test_a_stop_we_asked_for_is_never_a_crash_whatever_the_engine_says() -> None:
    assert explain("failed to allocate", stop_requested=True, exit_code=None, signal="SIGKILL").kind == "stopped"
    forced = explain(stop_requested=True, forced=True, exit_code=None, signal="SIGKILL")
    assert "by force" in forced.message


def test_a_windows_crash_code_is_read_as_such_even_when_negative() -> None:
    assert explain(exit_code=-1073741819, was_ready=True).kind == "crashed"
    assert explain(exit_code=0xC0000135).kind == "missing-library"


def test_an_unknown_end_keeps_code_and_last_words() -> None:
    report = explain(*[f"line {n}" for n in range(50)], exit_code=3)
    assert (report.kind, report.exit_code) == ("crashed", 3)
    assert "exit code 3" in report.message
    assert report.last_words == tuple(f"line {n}" for n in range(30, 50))


def test_a_clean_exit_nobody_asked_for_is_told() -> None:
    assert explain(exit_code=0, was_ready=True).kind == "ended"
