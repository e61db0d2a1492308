"""Makes a context on a device that computes like the CPU but says it lacks some ops for our cache types.

Arguments: model, op names that are lacking (comma-separated, or -), K type, V type, flash attention on | off | auto.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import llama_cpp

GPU = 1
FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}
# struct ggml_tensor: where it holds its type, op and first sources
TYPE_AT, OP_AT, SOURCES_AT, SOURCES = 0, 80, 152, 3

suffix = {"win32": "{}.dll", "darwin": "lib{}.dylib"}.get(sys.platform, "lib{}.so")
folder = Path(llama_cpp.__file__).parent / "lib"
base, cpu, ggml = (ctypes.CDLL(str(folder / suffix.format(name))) for name in ("ggml-base", "ggml-cpu", "ggml"))
P = ctypes.c_void_p

base.ggml_type_name.restype = base.ggml_op_name.restype = ctypes.c_char_p
for function in (base.ggml_backend_cpu_buffer_type, cpu.ggml_backend_cpu_init, cpu.ggml_backend_cpu_reg):
    function.restype = P


class Props(ctypes.Structure):
    """struct ggml_backend_dev_props"""

    _fields_ = (
        *((name, ctypes.c_char_p) for name in ("name", "description")),
        *((name, ctypes.c_size_t) for name in ("free", "total")),
        *(("type", ctypes.c_int), ("id", ctypes.c_char_p), ("caps", ctypes.c_bool * 5)),
    )


METHODS = {
    "get_name": ctypes.CFUNCTYPE(ctypes.c_char_p, P),
    "get_description": ctypes.CFUNCTYPE(ctypes.c_char_p, P),
    "get_memory": ctypes.CFUNCTYPE(None, P, ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t)),
    "get_type": ctypes.CFUNCTYPE(ctypes.c_int, P),
    "get_props": ctypes.CFUNCTYPE(None, P, ctypes.POINTER(Props)),
    "init_backend": ctypes.CFUNCTYPE(P, P, ctypes.c_char_p),
    "get_buffer_type": ctypes.CFUNCTYPE(P, P),
    "get_host_buffer_type": P,
    "buffer_from_host_ptr": P,
    "supports_op": ctypes.CFUNCTYPE(ctypes.c_bool, P, P),
    "supports_buft": ctypes.CFUNCTYPE(ctypes.c_bool, P, P),
    "offload_op": P,
    "event_new": P,
    "event_free": P,
    "event_synchronize": P,
}


class Device(ctypes.Structure):
    """struct ggml_backend_device"""

    _fields_ = (*METHODS.items(), ("reg", P), ("context", P))


def number(address: int) -> int:
    return ctypes.c_int.from_address(address).value


def is_ours(tensor: int) -> bool:
    return base.ggml_type_name(number(tensor + TYPE_AT)).startswith((b"tbq", b"planar", b"tcq"))


def device(lacking: set[str]) -> Device:
    gib = 1 << 30

    def memory(_dev, free, total) -> None:
        free[0] = total[0] = gib

    def props(_dev, out) -> None:
        out[0] = Props(b"FAKE0", b"a device of the tests", gib, gib, GPU, None)

    def supports_op(_dev, op: int) -> bool:
        sources = (P.from_address(op + SOURCES_AT + 8 * i).value for i in range(SOURCES))
        ours = any(is_ours(tensor) for tensor in (op, *filter(None, sources)))
        return not (ours and base.ggml_op_name(number(op + OP_AT)).decode() in lacking)

    functions = {
        "get_name": lambda _dev: b"FAKE0",
        "get_description": lambda _dev: b"a device of the tests",
        "get_memory": memory,
        "get_type": lambda _dev: GPU,
        "get_props": props,
        "init_backend": lambda _dev, _params: cpu.ggml_backend_cpu_init(),
        "get_buffer_type": lambda _dev: base.ggml_backend_cpu_buffer_type(),
        "supports_op": supports_op,
        "supports_buft": lambda _dev, _buft: True,
    }
    made = {name: METHODS[name](function) for name, function in functions.items()}
    return Device(**made, reg=cpu.ggml_backend_cpu_reg())


def main(model: str, lacking: str, kv_k: str, kv_v: str, attention: str) -> None:
    types = {base.ggml_type_name(n).decode(): n for n in range(llama_cpp.GGML_TYPE_COUNT) if base.ggml_type_name(n)}
    llama_cpp.llama_backend_init()
    fake = device(set(lacking.split(",")))
    ggml.ggml_backend_device_register(ctypes.byref(fake))
    params = llama_cpp.llama_model_default_params()
    params.n_gpu_layers = 99
    loaded = llama_cpp.llama_model_load_from_file(model.encode(), params)
    assert loaded, "the model did not load"
    options = llama_cpp.llama_context_default_params()
    options.n_ctx, options.n_threads = 256, 1
    options.type_k, options.type_v = types[kv_k], types[kv_v]
    options.flash_attn_type = FLASH_ATTENTION[attention]
    context = llama_cpp.llama_init_from_model(loaded, options)
    sys.stderr.flush()
    print("made" if context else "refused", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
