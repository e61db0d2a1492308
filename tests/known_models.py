"""Headers of well-known models as values: only what the estimate reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kvarn.domain.kv_type import STOCK_KV_TYPES, KvType
from kvarn.domain.launch.engine_build import EngineBuild
from kvarn.domain.library.model_entry import ModelEntry, ModelSource
from kvarn.domain.library.model_facts import ModelFacts, TensorFacts

MIB = 1 << 20
TBQ4, PLANAR3 = KvType("tbq4_0", 128, 66, 34, True), KvType("planar3_0", 128, 50, 26, True)
TCQ4, TCQ3 = KvType("tcq4_0", 128, 66, 34, True), KvType("tcq3_0", 128, 50, 26, True)
TYPES = {kv.name: kv for kv in (*STOCK_KV_TYPES, TBQ4, PLANAR3, TCQ4, TCQ3)}


def facts(architecture: str, *, tensors: TensorFacts | None = None, vocab: int | None = 32000, **hparams: Any):
    """Header facts; `__` in a keyword stands for the dot of a GGUF key."""
    keys = {key.replace("__", "."): value for key, value in hparams.items()}
    return ModelFacts(
        architecture=architecture,
        name=architecture,
        general={},
        hparams=keys,
        vocab_size=vocab,
        tokenizer_model="gpt2",
        chat_template=True,
        tensors=tensors,
    )


def dense(architecture: str, layers: int, heads: int, kv_heads: Any, head_size: int, **hparams: Any) -> ModelFacts:
    """A model whose K and V heads have one stated size."""
    given = {
        "block_count": layers,
        "context_length": 131072,
        "embedding_length": heads * head_size,
        "feed_forward_length": heads * head_size * 3,
        "attention__head_count": heads,
        "attention__head_count_kv": kv_heads,
        "attention__key_length": head_size,
        "attention__value_length": head_size,
    }
    return facts(architecture, **{**given, **hparams})


def entry(model: ModelFacts | None, **fields: Any) -> ModelEntry:
    """A library entry around header facts."""
    given = {
        "id": "model",
        "title": "Model",
        "paths": (Path("/models/model.gguf"),),
        "source": ModelSource.FOLDER,
        "file_bytes": 100 * MIB,
        "facts": model,
    }
    return ModelEntry(**{**given, **fields})


def tensors(total: int, *, embedding: int = 0, output: int = 0, routed: int = 0, nextn: int = 0) -> TensorFacts:
    return TensorFacts(
        count=1,
        total_bytes=total,
        token_embd_bytes=embedding,
        output_bytes=output,
        routed_expert_bytes=routed,
        bytes_by_type={"F16": total},
        nextn_bytes=nextn,
    )


def build(*extra: KvType, flags: frozenset[str] = frozenset(), **fields: Any) -> EngineBuild:
    given = {
        "server": Path("/engine/bin/llama-server"),
        "bin_dir": Path("/engine/bin"),
        "base": "llama-cpp-python 0.3.36",
        "version": "0.3.36+kvarn.1",
        "is_kvarn": True,
        "kv_types": (*STOCK_KV_TYPES, *extra),
        "flags": flags,
    }
    return EngineBuild(**{**given, **fields})


QWEN36_27B = dense(
    "qwen35",
    64 + 1,
    24,
    4,
    256,
    embedding_length=5120,
    context_length=262144,
    nextn_predict_layers=1,
    full_attention_interval=4,
    ssm__conv_kernel=4,
    ssm__state_size=128,
    ssm__inner_size=48 * 128,
    ssm__group_count=16,
)
SMOLLM2 = dense("llama", 30, 9, 3, 64, context_length=8192)
LLAMA31_8B = dense("llama", 32, 32, 8, 128)
GEMMA3_4B = dense("gemma3", 34, 8, 4, 256, embedding_length=2560, attention__sliding_window=1024)
GEMMA3_12B = dense("gemma3", 48, 16, 8, 256, attention__sliding_window=1024)
GEMMA3_27B = dense("gemma3", 62, 32, 16, 128, attention__sliding_window=1024)
GEMMA4_31B = dense(
    "gemma4",
    60,
    32,
    (16, 16, 16, 16, 16, 4) * 10,
    512,
    attention__key_length_swa=256,
    attention__value_length_swa=256,
    attention__sliding_window=1024,
    attention__sliding_window_pattern=(True, True, True, True, True, False) * 10,
)
GPT_OSS_20B = dense("gpt-oss", 24, 64, 8, 64, embedding_length=2880, attention__sliding_window=128)
DEEPSEEK_V3 = dense(
    "deepseek2",
    61,
    128,
    1,
    576,
    attention__value_length=512,
    attention__key_length_mla=192,
    attention__value_length_mla=128,
    attention__kv_lora_rank=512,
)
DEEPSEEK_V2_LITE = dense(
    "deepseek2",
    27,
    16,
    1,
    576,
    attention__value_length=512,
    attention__key_length_mla=192,
    attention__value_length_mla=128,
)
