"""What one header says, and one sentence for everything that can be wrong with it."""

from __future__ import annotations

import io
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gguf_maker import BOOL, I32, STR, U16, U64, GgufMaker
from kvarn.domain.library.header_reading import HeaderReading
from kvarn.services.library.gguf_reader import read_gguf


def read(file: GgufMaker | bytes) -> HeaderReading:
    data = file if isinstance(file, bytes) else file.dump()
    return read_gguf(io.BytesIO(data), len(data))


def problem_of(file: GgufMaker | bytes) -> tuple[str, str]:
    problem = read(file).problem
    assert problem is not None
    assert "\n" not in problem.message
    return problem.code, problem.message


def test_facts_are_kept_close_to_the_file() -> None:
    maker = GgufMaker.llama(name="Tiny", layers=2, heads=4, kv_heads=2, context=512).key("general.size_label", "1M")
    maker.hparam("rope.freq_base", 10000.0).key("tokenizer.chat_template", "{{ x }}").with_weights()
    reading = read(maker)
    assert reading.problem is None
    facts = reading.facts
    assert facts is not None
    assert (facts.architecture, facts.name, facts.vocab_size, facts.tokenizer_model) == ("llama", "Tiny", 261, "llama")
    assert facts.general == {"size_label": "1M"}
    assert facts.hparams["attention.head_count_kv"] == 2
    assert facts.hparams["rope.freq_base"] == 10000.0
    assert facts.context_train == 512
    assert facts.chat_template
    assert "general.name" not in facts.general


def test_tensor_bytes_are_counted_by_type_and_purpose() -> None:
    maker = GgufMaker.llama(layers=2).tensor("token_embd.weight", (64, 32), "Q8_0").tensor("output.weight", (64, 32))
    maker.tensor("blk.0.ffn_gate_exps.weight", (64, 8, 4), "Q4_0").tensor("blk.1.nextn.eh_proj.weight", (64, 2), "F16")
    maker.tensor("blk.1.attn_q.weight", (64, 1))
    tensors = read(maker).facts.tensors
    assert tensors.count == 5
    assert tensors.token_embd_bytes == 64 // 32 * 34 * 32
    assert tensors.output_bytes == 64 * 32 * 4
    assert tensors.routed_expert_bytes == 64 // 32 * 18 * 32
    assert tensors.nextn_bytes == 64 * 2 * 2 + 64 * 4
    assert tensors.bytes_by_type == {"Q8_0": 2176, "F32": 8192 + 256, "Q4_0": 1152, "F16": 256}
    assert tensors.total_bytes == 2176 + 8192 + 1152 + 256 + 256
    assert tensors.elements_total == 2048 + 2048 + 2048 + 128 + 64


def test_arrays_per_layer_are_kept_and_long_ones_left_out() -> None:
    maker = GgufMaker.llama().hparam("per_layer", [8, 8, 1], I32).hparam("pattern", [True, False], BOOL)
    maker.hparam("long", list(range(4097))).hparam("kept", list(range(4096))).hparam("labels", ["a", "b"])
    hparams = read(maker.with_weights()).facts.hparams
    assert hparams["per_layer"] == (8, 8, 1)
    assert hparams["pattern"] == (True, False)
    assert len(hparams["kept"]) == 4096
    assert hparams["labels"] == ("a", "b")
    assert "long" not in hparams


def test_a_header_larger_than_one_chunk_is_read_to_its_end() -> None:
    tokens = ["<unk>", "<s>", "</s>", *(f"token-{number:07}" for number in range(20_000))]
    reading = read(GgufMaker.llama(vocab=tokens).key("last.key", 1).with_weights())
    assert reading.problem is None
    assert reading.facts.vocab_size == 20_003


class ShortReads(io.BytesIO):
    """A file that gives what it likes, as pipes and network disks do."""

    step = 1

    def read(self, size: int | None = -1) -> bytes:
        return super().read(self.step)


@pytest.mark.parametrize("step", [1, 3, 7, 64, 1000])
def test_chunks_may_end_anywhere(step: int) -> None:
    data = GgufMaker.llama(name="x" * 700).hparam("list", [1, 2, 3]).key("k", 5, U64).with_weights().dump()
    file = ShortReads(data)
    file.step = step
    reading = read_gguf(file, len(data))
    assert reading.problem is None
    assert reading == read(data)


def test_every_cut_through_a_file_is_incomplete_and_the_last_byte_counts() -> None:
    whole = GgufMaker.llama().with_weights().dump()
    for size in (4, 7, 8, 20, 23, 24, 100, 1000, 5000, len(whole) // 2, len(whole) - 1):
        code, message = problem_of(whole[:size])
        assert code == "incomplete", size
        assert message.startswith(f"incomplete: {size:,} ")
    assert f"of {len(whole):,} bytes" in problem_of(whole[:-1])[1]
    assert read(whole).problem is None


def test_a_vocabulary_that_holds_a_text_twice_is_refused() -> None:
    tokens = ["<unk>", "<s>", "</s>", "a", "b", "a"]
    assert problem_of(GgufMaker.llama(vocab=tokens).with_weights()) == (
        "duplicate-token",
        "The vocabulary holds the text “a” twice; the engine cannot load such a file.",
    )
    assert read(GgufMaker.llama(vocab=["<unk>", "<s>", "</s>", "a", "", ""]).with_weights()).problem is None


def test_a_model_without_tokenizer_may_repeat_texts() -> None:
    maker = GgufMaker.llama(vocab=["<unk>", "<s>", "</s>"]).with_weights()
    no_vocab = GgufMaker("llama").hparam("block_count", 1).vocabulary(["a", "a", "a"], model="no_vocab")
    assert read(no_vocab.tensor("x", (1,))).problem is None
    assert read(maker).problem is None


@pytest.mark.parametrize("alignment", [0, 3, 1 << 31])
def test_an_impossible_alignment_is_named(alignment: int) -> None:
    code, message = problem_of(GgufMaker.llama().key("general.alignment", alignment).tensor("x", (1,)))
    assert code == "damaged"
    assert f"alignment of {alignment:,} bytes" in message


@pytest.mark.parametrize(
    ("shape", "word"),
    [
        ({"layers": 0}, "0 layers"),
        ({"layers": 0xFFFFFFFF}, "4,294,967,295 layers"),
        ({"heads": 0, "kv_heads": 0}, "attention.head_count = 0"),
        ({"kv_heads": 0}, "attention.head_count_kv = 0"),
        ({"heads": 0xFFFFFFFF}, "attention.head_count = 4,294,967,295"),
        ({"embd": 0}, "embedding_length = 0"),
    ],
)
def test_an_absurd_number_is_named_and_facts_stay(shape: dict[str, int], word: str) -> None:
    maker = GgufMaker.llama(**shape).tensor("x", (1,))
    code, message = problem_of(maker)
    assert code == "bad-numbers"
    assert word in message
    assert read(maker).facts is not None


def test_a_missing_layer_count_is_named() -> None:
    assert "how many layers" in problem_of(GgufMaker("made-up").tensor("x", (1,)))[1]


@pytest.mark.parametrize("context", [0, 0xFFFFFFFF])
def test_an_absurd_context_is_unknown(context: int) -> None:
    reading = read(GgufMaker.llama(context=context).with_weights())
    assert reading.problem is None
    assert reading.facts.context_train is None


def test_recurrent_models_may_have_layers_without_heads() -> None:
    hybrid = GgufMaker("jamba").hparam("block_count", 2).hparam("attention.head_count_kv", [0, 8], I32)
    pure = GgufMaker("mamba").hparam("block_count", 1).hparam("attention.head_count", 0).hparam("ssm.state_size", 16)
    assert read(hybrid.hparam("ssm.state_size", 16).tensor("x", (1,))).problem is None
    assert read(pure.tensor("x", (1,))).problem is None


def test_per_layer_heads_may_be_zero_in_some_layers_only() -> None:
    some = GgufMaker("deci").hparam("block_count", 2).hparam("attention.head_count_kv", [0, 4], I32)
    none = GgufMaker("deci").hparam("block_count", 2).hparam("attention.head_count_kv", [0, 0], I32)
    assert read(some.tensor("x", (1,))).problem is None
    assert problem_of(none.tensor("x", (1,)))[0] == "bad-numbers"


def test_an_empty_key_is_damage() -> None:
    assert "key without a name" in problem_of(GgufMaker().key("", 7))[1]


def test_a_key_or_tensor_named_twice_is_damage() -> None:
    assert "key a.b twice" in problem_of(GgufMaker().key("a.b", 1).key("a.b", 2))[1]
    assert "two tensors alike" in problem_of(GgufMaker.llama().tensor("x", (1,)).tensor("x", (1,)))[1]


def test_a_header_without_architecture_or_weights_is_named() -> None:
    assert problem_of(GgufMaker())[0] == "no-architecture"
    assert problem_of(GgufMaker.llama())[0] == "no-weights"
    assert read(GgufMaker.llama()).facts is not None


@pytest.mark.parametrize(("kind", "code"), [("adapter", "adapter"), ("imatrix", "imatrix"), ("mmproj", "projector")])
def test_companions_of_models_are_told_from_models(kind: str, code: str) -> None:
    assert problem_of(GgufMaker("llama").key("general.type", kind).tensor("x", (1,)))[0] == code


def test_a_projector_is_recognised_by_its_header() -> None:
    reading = read(GgufMaker("clip").hparam("vision.projection_dim", 640).tensor("v.x", (1,)))
    assert reading.is_projector
    assert reading.problem.code == "projector"


@pytest.mark.parametrize("count", [1 << 60, (1 << 64) - 1, 1 << 20])
def test_absurd_counts_are_refused_at_once(count: int) -> None:
    maker = GgufMaker.llama()
    maker.key_count = count
    assert "keys" in problem_of(maker)[1]
    maker = GgufMaker.llama()
    maker.tensor_count = count
    assert "tensors" in problem_of(maker)[1]


@pytest.mark.parametrize("kind", [STR, U16, U64])
def test_an_array_that_claims_more_than_the_file_holds_is_incomplete(kind: int) -> None:
    value = "x" if kind == STR else 1
    assert problem_of(GgufMaker("llama").array("llama.a", [value], kind, count=1 << 60))[0] == "incomplete"


def test_unknown_value_types_and_nested_arrays_are_damage() -> None:
    key = struct.pack("<Q", 1) + b"k"
    header = b"GGUF" + struct.pack("<IQQ", 3, 0, 1)
    assert "unknown type 13" in problem_of(header + key + struct.pack("<IQ", 13, 0))[1]
    assert "unknown type 9" in problem_of(header + key + struct.pack("<IIQ", 9, 9, 1) + bytes(64))[1]


def test_impossible_tensors_are_damage() -> None:
    assert "impossible size" in problem_of(GgufMaker.llama().tensor("x", (1 << 62, 4), data=False))[1]
    assert "impossible shape" in problem_of(GgufMaker.llama().tensor("x", (33, 4), "Q8_0", data=False))[1]
    assert "impossible place" in problem_of(GgufMaker.llama().tensor("x", (4,), offset=1 << 40))[1]
    assert "5 dimensions" in problem_of(GgufMaker.llama().tensor("x", (1, 1, 1, 1, 1)))[1]
    assert "tensor name of 64 bytes" in problem_of(GgufMaker.llama().tensor("x" * 64, (1,)))[1]


def test_a_tensor_type_of_a_later_engine_leaves_sizes_unknown() -> None:
    reading = read(GgufMaker.llama().tensor("x", (4,)).tensor("y", (4,), 4711, data=False))
    assert reading.problem is None
    assert reading.facts.tensors is None


def test_an_evil_name_is_kept_as_data_and_cut_to_size() -> None:
    name = "<b>bold</b>\n\u202egnp.exe\0tail " + "x" * 9000
    facts = read(GgufMaker.llama(name=name).with_weights()).facts
    assert facts.name == name.encode()[:4096].decode()
    assert read(GgufMaker("llama").key("general.name", b"\xff\xfe")).facts.name == "\ufffd\ufffd"


def test_big_endian_and_foreign_files_are_named_by_the_reader_too() -> None:
    assert problem_of(GgufMaker("llama", big_endian=True))[0] == "big-endian"
    assert problem_of(b"<html>")[0] == "web-page"
    assert problem_of(b"")[0] == "empty"


SMALL = GgufMaker.llama(vocab=["<unk>", "<s>", "</s>", "a"]).tensor("blk.0.x", (64, 2), "Q8_0").dump()


@given(st.lists(st.tuples(st.integers(4, len(SMALL) - 1), st.integers(0, 255)), min_size=1, max_size=6))
def test_whatever_the_bytes_say_the_answer_is_one_line_that_can_be_sent(changes: list[tuple[int, int]]) -> None:
    data = bytearray(SMALL)
    for place, value in changes:
        data[place] = value
    reading = read(bytes(data))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(reading), type=HeaderReading).file_bytes == len(SMALL)
    assert reading.problem is None or len(reading.problem.message.splitlines()) == 1
