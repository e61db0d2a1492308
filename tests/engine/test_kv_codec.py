"""The rotated cache types as the engine's libraries store them, against an encoder of our own in numpy."""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.engine

LEVELS = {
    "tbq4_0": ((5, 15, 25, 36, 48, 62, 79, 104), 38.14, 629.5),
    "planar3_0": ((10, 31, 55, 88), 40.91, 744.0),
}
"""Positive levels, level units in one standard deviation, largest scale."""
TRELLISES = {
    "tcq4_0": (
        (
            ((-66, -37, -18, -2, 13, 31, 56, 119), (-94, -49, -27, -10, 5, 22, 42, 78)),
            ((-119, -56, -31, -13, 2, 18, 37, 66), (-78, -42, -22, -5, 10, 27, 49, 94)),
        ),
        16, 41.56, 550.0,
    ),
    "tcq3_0": (
        (((-53, -6, 39, 125), (-90, -28, 15, 68)), ((-125, -39, 6, 53), (-68, -15, 28, 90))),
        32, 51.24, 524.0,
    ),
}  # fmt: skip
"""Levels [e][w][rank], values of a ring, level units in one standard deviation, largest scale."""
ERRORS = {
    "tbq4_0": 0.0095,
    "planar3_0": 0.0346,
    "tcq4_0": 0.00632,
    "tcq4_0_64": 0.00611,
    "tcq3_0": 0.02359,
    "tcq3_0_64": 0.02296,
}
"""Squared error on Gaussian values as a part of the variance: of the codebook, or with a trellis of such blocks."""
TYPES = [
    ("tbq4_0", 128, 66), ("tbq4_0_64", 64, 34), ("planar3_0", 128, 50), ("planar3_0_64", 64, 26),
    ("tcq4_0", 128, 66), ("tcq4_0_64", 64, 34), ("tcq3_0", 128, 50), ("tcq3_0_64", 64, 26),
]  # fmt: skip
Q8_0 = 8

Row = np.ndarray
Writer = Callable[[Row], np.ndarray]


class CpuTraits(ctypes.Structure):
    """The head of `ggml_type_traits_cpu`."""

    _fields_ = (("from_float", ctypes.c_void_p), ("vec_dot", ctypes.c_void_p), ("vec_dot_type", ctypes.c_int))


class Codec:
    """One type of the built libraries."""

    def __init__(self, base: ctypes.CDLL, cpu: ctypes.CDLL, name: str, block_values: int, block_bytes: int) -> None:
        self.base, self.cpu, self.name = base, cpu, name
        self.block_values, self.block_bytes = block_values, block_bytes
        self.number = next(n for n in range(256) if base.ggml_type_name(n) == name.encode())
        self.traits = cpu.ggml_get_type_traits_cpu(self.number).contents

    def _write(self, function: Callable[..., None], x: Row) -> np.ndarray:
        x = np.ascontiguousarray(x, np.float32)
        out = np.full(x.size // self.block_values * self.block_bytes, 0xEE, np.uint8)
        function(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(out.ctypes.data), ctypes.c_int64(x.size))
        return out

    def reference(self, x: Row) -> np.ndarray:
        """What the reference writes."""
        return self._write(getattr(self.base, f"kvarn_quantize_row_{self.name}_ref"), x)

    def backend(self, x: Row) -> np.ndarray:
        """What the CPU backend writes."""
        return self._write(_function(self.traits.from_float), x)

    def read(self, raw: np.ndarray) -> Row:
        """The values of stored bytes."""
        out = np.empty(raw.size // self.block_bytes * self.block_values, np.float32)
        function = getattr(self.base, f"kvarn_dequantize_row_{self.name}")
        function(ctypes.c_void_p(raw.ctypes.data), ctypes.c_void_p(out.ctypes.data), ctypes.c_int64(out.size))
        return out

    def dot(self, stored: np.ndarray, q8: np.ndarray, n: int) -> float:
        """The backend's product of a stored row with a q8_0 row."""
        result = ctypes.c_float(math.nan)
        zero = ctypes.c_size_t(0)
        vec_dot = _function(self.traits.vec_dot)
        vec_dot(ctypes.c_int(n), ctypes.byref(result), zero, ctypes.c_void_p(stored.ctypes.data), zero,
                ctypes.c_void_p(q8.ctypes.data), zero, ctypes.c_int(1))  # fmt: skip
        return result.value


def _function(address: int) -> Callable[..., None]:
    return ctypes.CFUNCTYPE(None)(address)


@pytest.fixture(scope="module")
def libraries(engine_dir: Path, engine_build_info) -> tuple[ctypes.CDLL, ctypes.CDLL]:
    """libggml-base and libggml-cpu of the engine under test."""
    pattern = {"win32": "{}.dll", "darwin": "lib{}.dylib"}.get(sys.platform, "lib{}.so")
    folders = (engine_dir.parent / "lib", engine_dir)
    paths = [next(p for f in folders if (p := f / pattern.format(n)).exists()) for n in ("ggml-base", "ggml-cpu")]
    base, cpu = (ctypes.CDLL(str(path)) for path in paths)
    base.ggml_type_name.restype = ctypes.c_char_p
    cpu.ggml_get_type_traits_cpu.restype = ctypes.POINTER(CpuTraits)
    cpu.ggml_cpu_init()
    return base, cpu


@pytest.fixture(params=TYPES, ids=lambda t: t[0])
def codec(request, libraries) -> Codec:
    """Each type and block size."""
    return Codec(*libraries, *request.param)


def trellis_path(levels: np.ndarray, ring: np.ndarray) -> tuple[list[int], list[int]]:
    """Symbols and levels of the best circle through a ring of values, by dynamic programming over states (u1, u2)."""
    top = levels.shape[2]
    candidates = []
    for start in range(4):
        paths = {(start & 1, start >> 1): (0, [], [])}
        for value in ring:
            longer: dict[tuple[int, int], tuple[int, list[int], list[int]]] = {}
            for (u1, u2), (total, symbols, chosen) in sorted(paths.items(), key=lambda item: item[0][1]):
                for u in (0, 1):
                    errors = (value - 16 * levels[u1, u ^ u2]) ** 2
                    rank = int(errors.argmin())
                    step = (
                        total + int(errors[rank]),
                        [*symbols, rank | u * top],
                        [*chosen, int(levels[u1, u ^ u2, rank])],
                    )
                    if (u, u1) not in longer or step[0] < longer[u, u1][0]:
                        longer[u, u1] = step
            paths = longer
        candidates.append(paths[start & 1, start >> 1])
    _, symbols, chosen = min(candidates, key=lambda path: path[0])
    return symbols, chosen


def encode_trellis(name: str, x: Row) -> bytes:
    """One block of a trellis code, from the description in kvarn-kv-trellis.h and from nothing else."""
    table, ring, per_sigma, d_max = TRELLISES[name.removesuffix("_64")]
    wide = x.astype(np.float64)
    norm = math.sqrt(float(np.sum(wide * wide)))
    scale = np.float32(16 * (float(np.float32(per_sigma)) * math.sqrt(x.size) / norm))
    values = np.rint(x * scale).astype(np.int64)
    paths = [trellis_path(np.array(table, np.int64), part) for part in values.reshape(-1, ring)]
    levels = np.concatenate([path[1] for path in paths])
    d = np.float16(min(norm / math.sqrt(float(np.sum(levels**2))), d_max))
    return d.tobytes() + packed(np.concatenate([path[0] for path in paths]), 4 if name.startswith("tcq4") else 3)


def packed(symbols: np.ndarray, bits: int) -> bytes:
    """The symbols of a block in their places."""
    groups = symbols.reshape(-1, 32)
    if bits == 4:
        return (groups[:, :16] | groups[:, 16:] << 4).astype(np.uint8).tobytes()
    low = groups.reshape(-1, 4, 8) & 3
    planes = low[:, 0] | low[:, 1] << 2 | low[:, 2] << 4 | low[:, 3] << 6
    return planes.astype(np.uint8).tobytes() + np.packbits(groups >> 2, axis=1, bitorder="little").tobytes()


def encode(name: str, x: Row) -> bytes:
    """One block, from the description in kvarn-kv-types.h and from nothing else."""
    if name.startswith("tcq"):
        return encode_trellis(name, x)
    positive, per_sigma, d_max = LEVELS[name.removesuffix("_64")]
    levels = np.array([*(-level for level in reversed(positive)), *positive], np.float64)
    wide = x.astype(np.float64)
    norm = math.sqrt(float(np.sum(wide * wide)))
    index = np.abs(wide[:, None] * (np.float64(np.float32(per_sigma)) * math.sqrt(x.size) / norm) - levels).argmin(1)
    d = np.float16(min(norm / math.sqrt(float(np.sum(levels[index] ** 2))), d_max))
    return d.tobytes() + packed(index, 4 if len(levels) == 16 else 3)


def gaussian(size: int, seed: int, sigma: float = 1.0) -> Row:
    return (np.random.default_rng(seed).standard_normal(size) * sigma).astype(np.float32)


def relative_error(x: Row, y: Row) -> float:
    return float(np.sum((x.astype(np.float64) - y) ** 2) / np.sum(x.astype(np.float64) ** 2))


def hadamard(size: int) -> np.ndarray:
    rows = np.ones((1, 1))
    while len(rows) < size:
        rows = np.block([[rows, rows], [rows, -rows]])
    return rows / math.sqrt(size)


def test_blocks_have_the_bytes_of_an_independent_encoder(codec: Codec):
    for seed in range(60):
        x = gaussian(codec.block_values, seed, 10.0 ** (seed % 7 - 3))
        assert codec.reference(x).tobytes() == encode(codec.name, x), seed


def test_golden_bytes_of_a_ramp_never_change(libraries):
    x = np.array([((i * 37) % 64 - 32) / 8 + 0.03125 for i in range(64)], np.float32)
    golden = {
        "tbq4_0_64": "be2b42c963db853ca752c9742b964db853dab852ca742b964db863da853ca752c973",
        "planar3_0_64": "9a2ba1e8752d4a5297a5d4a5297a5e87a2d42ab55aa9d54aa556",
        "tcq4_0_64": "2b2b90e4b9f6421653a0ed39865a976ba175e428ed41865b97e4b9fdca965390e4b9",
        "tcq3_0_64": "ac29c8761cb62d8b61d872d8b61c8761cb628b675d2ceba20c17",
    }
    for name, written in golden.items():
        assert Codec(*libraries, name, 64, len(written) // 2).reference(x).tobytes().hex() == written


def test_the_error_on_gaussian_blocks_is_that_of_the_codebook(codec: Codec):
    x = gaussian(codec.block_values * 100_000, 1)
    recorded = ERRORS.get(codec.name) or ERRORS[codec.name.removesuffix("_64")]
    error = relative_error(x, codec.read(codec.backend(x)))
    # Each block is scaled by its own norm, which knows a little more than the distribution: about 4/n less error.
    less = 0 if codec.name in TRELLISES or codec.name.removesuffix("_64") in TRELLISES else 5 / codec.block_values
    assert recorded * (0.98 - less) < error < recorded * 1.02


def test_a_rotation_makes_outlier_channels_harmless(codec: Codec):
    x = gaussian(codec.block_values * 20_000, 2).reshape(-1, codec.block_values)
    x[:, [5, 40]] *= 10
    rotated = (x @ hadamard(codec.block_values)).astype(np.float32).ravel()
    plain_error = relative_error(x.ravel(), codec.read(codec.backend(x.ravel())))
    rotated_error = relative_error(rotated, codec.read(codec.backend(rotated)))
    assert rotated_error < 1.1 * ERRORS[codec.name.removesuffix("_64")]
    assert plain_error > 3 * rotated_error


def test_the_backend_writes_the_bytes_of_the_reference_whatever_the_values(codec: Codec):
    random = np.random.default_rng(3)
    for sigma in (1e-6, 1e-3, 1.0, 1e3, 1e6):
        x = gaussian(codec.block_values * 400, 4, sigma)
        assert (codec.backend(x) == codec.reference(x)).all()
        x = np.round(x / sigma * 4) / 4
        assert (codec.backend(x) == codec.reference(x)).all()
        any_bits = random.integers(0, 2**32, x.size // 20, np.uint32).view(np.float32)
        x[random.integers(0, x.size, any_bits.size)] = any_bits
        assert (codec.backend(x) == codec.reference(x)).all()


@pytest.mark.parametrize("value", [0.0, -0.0, 1e-30, 1e-40, math.nan])
def test_blocks_without_energy_are_zero_bytes_and_exact_zeros(codec: Codec, value):
    raw = codec.backend(np.full(codec.block_values, value, np.float32))
    assert not raw.any()
    assert not codec.read(raw).any()


@pytest.mark.parametrize("value", [65504.0, 3e38, math.inf, -math.inf])
def test_huge_values_stay_finite_even_as_fp16(codec: Codec, value):
    read = codec.read(codec.backend(np.full(codec.block_values, value, np.float32)))
    assert (np.abs(read) <= 65504).all()
    assert (np.sign(read) == np.sign(value)).all()


def test_a_value_that_is_no_number_counts_as_zero_and_spoils_no_other(codec: Codec):
    x = gaussian(codec.block_values, 5)
    x[7] = 0.0
    with_nan = x.copy()
    with_nan[7] = math.nan
    assert codec.backend(with_nan).tobytes() == codec.backend(x).tobytes()


def test_the_backend_multiplies_what_is_stored(codec: Codec, libraries):
    q8 = Codec.__new__(Codec)
    q8.block_values, q8.block_bytes = 32, 34
    quantise = _function(libraries[1].ggml_get_type_traits_cpu(Q8_0).contents.from_float)
    for blocks in range(1, 6):
        n = blocks * codec.block_values
        stored = codec.backend(gaussian(n, 6))
        raw = q8._write(quantise, gaussian(n, 7, 3.0)).reshape(-1, 34)
        query = raw[:, :2].copy().view(np.float16).astype(np.float64) * raw[:, 2:].view(np.int8)
        products = codec.read(stored).astype(np.float64) * query.ravel()
        assert abs(codec.dot(stored, raw.ravel(), n) - products.sum()) < 1e-6 * np.abs(products).sum()


def test_the_backend_reads_what_the_reference_reads(codec: Codec, libraries):
    stored = codec.backend(gaussian(3 * codec.block_values, 8, 0.3))
    out = np.empty(3 * codec.block_values, np.float32)
    libraries[1].kvarn_to_float.restype = ctypes.c_void_p
    read = _function(libraries[1].kvarn_to_float(codec.number))
    read(ctypes.c_void_p(stored.ctypes.data), ctypes.c_void_p(out.ctypes.data), ctypes.c_int64(out.size))
    assert (out == codec.read(stored)).all()


@pytest.mark.parametrize(
    "name",
    ["test-kvarn-kv-types", "test-kvarn-kv-rows", "test-kvarn-hadamard", "test-kvarn-work-buffer", "test-kvarn-amx"],
)
def test_the_test_program_agrees(name: str, engine_dir: Path, engine_build_info):
    program = engine_dir / (f"{name}.exe" if sys.platform == "win32" else name)
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout
