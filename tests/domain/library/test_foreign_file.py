"""What is not a model says what it is."""

from __future__ import annotations

import struct

import pytest

from kvarn.domain.library.foreign_file import foreign_problem


@pytest.mark.parametrize(
    ("start", "code", "word"),
    [
        (b"", "empty", "empty"),
        (b"GG", "incomplete", "2 bytes"),
        (b"GGUF", "incomplete", "4 bytes"),
        (b"<!DOCTYPE html><html>", "web-page", "web page"),
        (b"\xef\xbb\xbf\n  <html><body>sign in", "web-page", "web page"),
        (b"version https://git-lfs.example/spec/v1\noid sha256:00\n", "lfs-pointer", "not fetched"),
        (b'{"error":"Repository not found"}', "not-gguf", "JSON"),
        (b"PK\x03\x04" + bytes(60), "not-gguf", "archive"),
        (struct.pack("<Q", 120) + b'{"__metadata__":{}', "not-gguf", "safetensors"),
        (b"tjgg" + struct.pack("<I", 3), "old-format", "older than GGUF"),
        (b"lmgg" + bytes(8), "old-format", "older than GGUF"),
        (bytes(1024), "not-gguf", "zeros"),
        (b"\x7fELF" + bytes(40), "not-gguf", "not a GGUF"),
        (b"GGUF" + struct.pack("<III", 1, 0, 0), "version", "version 1 "),
        (b"GGUF" + struct.pack("<IQQ", 99, 0, 0), "version", "version 99 is newer"),
        (b"GGUF" + struct.pack("<IQQ", 0, 0, 0), "version", "version 0 "),
        (b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "big-endian", "big-endian"),
    ],
)
def test_a_foreign_file_is_named_in_plain_words(start: bytes, code: str, word: str) -> None:
    problem = foreign_problem(start)
    assert problem is not None
    assert problem.code == code
    assert word in problem.message


@pytest.mark.parametrize("version", [2, 3])
def test_a_gguf_of_a_known_version_is_none_of_these(version: int) -> None:
    assert foreign_problem(b"GGUF" + struct.pack("<IQQ", version, 0, 0)) is None
