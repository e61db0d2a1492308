"""A short-lived process that lets the engine plan a launch without allocating it.

`python -m kvarn.services.launch.no_alloc_worker` reads one `WorkerRequest` as JSON from stdin, builds
the model and its context through the engine's own bindings with `no_alloc`, and prints one
`WorkerAnswer`. llama.cpp aborts on some bad input; that must cost this process and nothing else.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec

from kvarn.services.launch.bindings import load_bindings, type_number


class WorkerRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What `llama-server` would be asked for. `package_dir` is the engine's `llama_cpp` folder."""

    package_dir: str
    model_path: str
    kv_k: str
    kv_v: str
    context_tokens: int
    slots: int
    kv_unified: bool
    batch_tokens: int
    ubatch_tokens: int
    flash_attention: int
    """-1 auto, 0 off, 1 on: the engine's numbers."""
    swa_full: bool
    gpu_layers: int | None
    draft_tokens: int
    with_mtp: bool
    draft_kv_k: str = "f16"
    draft_kv_v: str = "f16"


class WorkerAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The engine's log of the planning; `ok` when model and context were built."""

    ok: bool
    log: str


def answer(request: WorkerRequest) -> WorkerAnswer:
    """Build model and context without memory; return what the engine said about it."""
    bindings = load_bindings(Path(request.package_dir))
    lines: list[str] = []
    callback = bindings.llama_log_callback(lambda _level, text, _data: lines.append(text.decode(errors="replace")))
    bindings.llama_log_set(callback, None)
    bindings.llama_backend_init()
    model = bindings.llama_model_load_from_file(request.model_path.encode(), _model_params(bindings, request))
    if not model:
        return WorkerAnswer(ok=False, log="".join(lines))
    context = bindings.llama_init_from_model(model, _context_params(bindings, request))
    if context and request.with_mtp:
        context = bindings.llama_init_from_model(model, _draft_params(bindings, request, context))
    return WorkerAnswer(ok=bool(context), log="".join(lines))


def _model_params(bindings: Any, request: WorkerRequest) -> Any:
    params = bindings.llama_model_default_params()
    params.no_alloc = True
    params.load_mode = bindings.LLAMA_LOAD_MODE_NONE
    params.load_mtp = request.with_mtp
    if request.gpu_layers is not None:
        params.n_gpu_layers = request.gpu_layers
    return params


def _context_params(bindings: Any, request: WorkerRequest) -> Any:
    """As `common_context_params_to_llama` and `server_output_limits` fill them."""
    params = bindings.llama_context_default_params()
    params.n_ctx = request.context_tokens
    params.n_seq_max = request.slots
    params.n_batch = request.batch_tokens
    params.n_ubatch = request.ubatch_tokens
    params.n_rs_seq = request.draft_tokens
    params.n_outputs_max_per_seq = min(request.batch_tokens, 1 + request.draft_tokens)
    params.n_outputs_max = min(request.batch_tokens, request.slots * (1 + request.draft_tokens))
    params.kv_unified = request.kv_unified
    params.swa_full = request.swa_full
    params.flash_attn_type = request.flash_attention
    params.type_k = type_number(Path(request.package_dir), request.kv_k)
    params.type_v = type_number(Path(request.package_dir), request.kv_v)
    return params


def _draft_params(bindings: Any, request: WorkerRequest, target: Any) -> Any:
    """The prediction block's own context, as `common_speculative_init_result` makes it; f16 by default."""
    params = _context_params(bindings, request)
    params.ctx_type = bindings.LLAMA_CONTEXT_TYPE_MTP
    params.ctx_other = target
    params.n_ctx = bindings.llama_n_ctx(target)
    params.n_rs_seq = 0
    params.n_outputs_max, params.n_outputs_max_per_seq = request.slots, 1
    params.type_k = type_number(Path(request.package_dir), request.draft_kv_k)
    params.type_v = type_number(Path(request.package_dir), request.draft_kv_v)
    return params


def main() -> None:
    """One request on stdin, one answer on stdout."""
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=WorkerRequest)
    sys.stdout.buffer.write(msgspec.json.encode(answer(request)))
    sys.stdout.flush()


if __name__ == "__main__":
    main()
