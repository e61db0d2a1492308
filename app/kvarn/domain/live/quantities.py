"""Names of the live series, shared by the telemetry store, the charts and `serve --json`.

Values are float64; NaN marks a gap. Times are monotonic seconds.
"""

from __future__ import annotations

DECODE_TOK_PER_S = "decode_tok_per_s"
PREFILL_TOK_PER_S = "prefill_tok_per_s"
REQUESTS_PROCESSING = "requests_processing"
REQUESTS_DEFERRED = "requests_deferred"
CONTEXT_TOKENS_USED = "context_tokens_used"
GRAPH_BUILT = "graph_built"
"""Compute graphs built in the interval that ends at the sample (a count, drawn as a bar)."""
GRAPH_REUSED = "graph_reused"
GRAPH_BUILT_TOTAL = "graph_built_total"
CUDA_CAPTURED = "cuda_captured"
ENGINE_RSS_BYTES = "engine_rss_bytes"
ENGINE_CPU_PERCENT = "engine_cpu_percent"
SYSTEM_RAM_USED_BYTES = "system_ram_used_bytes"
SYSTEM_CPU_PERCENT = "system_cpu_percent"
VRAM_USED_BYTES = "vram_used_bytes"
VRAM_ENGINE_BYTES = "vram_engine_bytes"
GPU_UTIL_PERCENT = "gpu_util_percent"
GPU_POWER_W = "gpu_power_w"
GPU_TEMPERATURE_C = "gpu_temperature_c"
GPU_CLOCK_MHZ = "gpu_clock_mhz"
