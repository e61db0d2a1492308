"""What the engine's source says about each architecture's cache, as tables.

Read from the pinned base (llama-cpp-python 0.3.36): `llama_model::create_memory`, every
`load_arch_hparams` in src/models, `llm_arch_is_recurrent` and its neighbours in llama-arch.cpp.
An architecture in none of these tables is unknown to us: the estimate then says so.
"""

from __future__ import annotations

import msgspec


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


PLAIN = _names(
    """
    llama deci falcon grok gpt2 gptj gptneox mpt baichuan starcoder refact bloom stablelm qwen qwen2 qwen2moe
    qwen2vl qwen3 qwen3moe qwen3vl qwen3vlmoe phi2 phi3 phimoe plamo codeshell orion internlm2 minicpm minicpm3
    gemma starcoder2 xverse command-r dbrx olmo olmoe openelm arctic deepseek deepseek2 deepseek2-ocr chatglm glm4
    glm4moe bitnet jais jais2 nemotron exaone granite granitemoe chameleon plm bailingmoe bailingmoe2 dots1 arcee
    ernie4_5 ernie4_5-moe hunyuan-moe hunyuan-dense hunyuan_vl hy_v3 smollm3 seed_oss grovemoe apertus hrm_text
    minimax-m2 cogvlm pangu-embedded mistral3 mistral4 paddleocr llama-embed maincoder talkie nanbeige
    """
)
"""Every layer keeps the whole context."""

NO_CACHE = _names(
    """
    bert jina-bert-v2 jina-bert-v3 nomic-bert nomic-bert-moe neo-bert eurobert modern-bert gemma-embedding dream
    llada llada-moe rnd1
    """
)
"""Encoders and diffusion models: the engine makes no cache at all."""

RECURRENT = _names("mamba mamba2 rwkv6 rwkv6qwen2 rwkv7 arwkv7")
"""Every layer keeps a state of fixed size and no K/V."""

MLA = _names("deepseek2 mistral4 bailingmoe3 kimi-linear kimi-k3")
"""Read the `_mla` head sizes; with those set K holds the latent row and V is not stored."""

NO_GROUPS = frozenset({"mamba", "jamba"})
"""The engine does not read `ssm.group_count`."""

ROLLBACK = _names("kimi-k3 qwen35 qwen35moe nemotron_h nemotron_h_moe lfm2 lfm2moe bailingmoe3")
"""Recurrent state kept once more per drafted token, so that rejected drafts can be undone."""

SKIPS_MTP_WEIGHTS = _names(
    """
    bailingmoe3 cohere2moe deepseek2 mistral4 glm4moe hy_v3 mimo2 nemotron_h nemotron_h_moe qwen35 qwen35moe
    qwen3next step35
    """
)
"""The weights of the prediction block stay on disk unless it is used."""

NO_FLASH_ATTENTION = frozenset({"grok"})
"""The engine switches flash attention off by itself."""


class WindowRule(msgspec.Struct, frozen=True):
    """Which layers see a sliding window. `period` n: one full layer in n, last of each group or `dense_first`.

    `period` None: the header must list the layers. `absent_window` is used when the header names no
    window: None makes all layers full, `REQUIRED` means the engine refuses. `fixed_window` overrules the header.
    """

    period: int | None
    absent_window: int | None = None
    dense_first: bool = False
    fixed_window: int | None = None


REQUIRED = -1

WINDOWED: dict[str, WindowRule] = {
    "afmoe": WindowRule(4),
    "cohere2": WindowRule(4, REQUIRED),
    "cohere2moe": WindowRule(4, REQUIRED, dense_first=True),
    "exaone-moe": WindowRule(4, REQUIRED),
    "exaone4": WindowRule(4, 4096),
    "gemma2": WindowRule(2, 4096),
    "gemma3": WindowRule(6),
    "gemma3n": WindowRule(5, REQUIRED),
    "gemma4": WindowRule(None, REQUIRED),
    "gpt-oss": WindowRule(2, REQUIRED),
    "granite_swa": WindowRule(None, REQUIRED),
    "laguna": WindowRule(4, dense_first=True),
    "llama4": WindowRule(4, 8192, fixed_window=8192),
    "maple": WindowRule(None, REQUIRED),
    "mellum": WindowRule(4),
    "mimo2": WindowRule(None, REQUIRED),
    "muse-glimmer": WindowRule(4, REQUIRED),
    "olmo2": WindowRule(4),
    "plamo3": WindowRule(8),
    "smallthinker": WindowRule(4, dense_first=True, fixed_window=4096),
    "spark2_5": WindowRule(None, REQUIRED),
    "step35": WindowRule(None, REQUIRED),
}

INTERVAL: dict[str, int] = {"qwen35": 4, "qwen35moe": 4, "qwen3next": 4, "minimax-01": 8}
"""Hybrids with one full-attention layer in n unless the header says otherwise; the value is the default n."""

ZERO_HEADS = _names("jamba granitehybrid plamo2 lfm2 lfm2moe kimi-linear kimi-k3 bailingmoe3")
"""Hybrids that mark a recurrent layer by zero KV heads."""

NEMOTRON = frozenset({"nemotron_h", "nemotron_h_moe"})
"""As `ZERO_HEADS`, and layers with a feed-forward length are neither recurrent nor attention."""

KNOWN = PLAIN | NO_CACHE | RECURRENT | WINDOWED.keys() | INTERVAL.keys() | ZERO_HEADS | NEMOTRON | {"falcon-h1"}
