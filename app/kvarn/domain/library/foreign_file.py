"""What a file that is not a GGUF of our kind most likely is, judged by its first bytes."""

from __future__ import annotations

import struct

from kvarn.domain.library.model_entry import ModelProblem

MAGIC = b"GGUF"
VERSIONS = (2, 3)
"""GGUF versions the pinned engine reads."""
_OLD_MAGICS = (b"lmgg", b"fmgg", b"tjgg", b"algg", b"GGML", b"ggjt", b"ggml", b"ggmf", b"ggla")
_ARCHIVES = (b"PK\x03\x04", b"\x1f\x8b", b"7z\xbc\xaf", b"\xfd7zX", b"(\xb5/\xfd", b"Rar!")


def foreign_problem(start: bytes) -> ModelProblem | None:
    """The problem of a file that begins with `start` (1 KiB will do); None for a GGUF of a known version."""
    if start.startswith(MAGIC):
        return _version_problem(start)
    text = start.lstrip(b"\xef\xbb\xbf \t\r\n")
    lower = text[:64].lower()
    if not start:
        return ModelProblem("empty", "The file is empty.")
    if MAGIC.startswith(start):
        return ModelProblem("incomplete", f"incomplete: {len(start)} bytes of a header. Repeat the download.")
    if lower.startswith((b"<!doctype", b"<html", b"<head", b"<?xml")):
        return ModelProblem("web-page", "This is a web page saved under a model's name. Download the model itself.")
    if text.startswith(b"version https://git-lfs"):
        return ModelProblem("lfs-pointer", "This is a Git LFS pointer: the real file was not fetched (git lfs pull).")
    return _other_format(start, text)


def _other_format(start: bytes, text: bytes) -> ModelProblem:
    if start.startswith(_OLD_MAGICS):
        return ModelProblem("old-format", "This is a model in a format older than GGUF. Get it as GGUF.")
    if start.startswith(_ARCHIVES):
        return ModelProblem("not-gguf", "This is an archive, not a GGUF model. Unpack it, or get the model as GGUF.")
    if len(start) > 9 and start[8:9] == b"{" and 0 < int.from_bytes(start[:8], "little") < 1 << 30:
        return ModelProblem("not-gguf", "This is a safetensors file, not a GGUF model. Get or convert it as GGUF.")
    if text.startswith((b"{", b"[")):
        return ModelProblem("not-gguf", "This is a JSON text, perhaps an error message of a download, not a model.")
    if not start.strip(b"\0"):
        return ModelProblem("not-gguf", "The file begins with nothing but zeros: the download reserved it only.")
    return ModelProblem("not-gguf", "This is not a GGUF file: it does not begin with the letters GGUF.")


def _version_problem(start: bytes) -> ModelProblem | None:
    if len(start) < 8:
        return ModelProblem("incomplete", f"incomplete: {len(start)} bytes of a header. Repeat the download.")
    (version,) = struct.unpack_from("<I", start, 4)
    if version in VERSIONS:
        return None
    if version & 0xFFFF == 0 and version:
        return ModelProblem("big-endian", "This GGUF file is big-endian, made for another kind of machine.")
    if version > max(VERSIONS):
        return ModelProblem("version", f"GGUF version {version:,} is newer than this engine reads.")
    return ModelProblem("version", f"GGUF version {version} is no longer read by the engine. Convert the model again.")
