"""Models that Ollama keeps: a small manifest per name points at blobs named by their hash. Read only.

Layout: `manifests/HOST/NAMESPACE/NAME/TAG` (JSON with `layers`), `blobs/sha256-HEX`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec

from kvarn.domain.library.joining import FoundFile
from kvarn.domain.library.model_entry import ModelSource

_MODEL = "application/vnd.ollama.image.model"
_PROJECTOR = "application/vnd.ollama.image.projector"
_DIGEST = re.compile(r"^sha256[:-]([0-9a-f]{64})$")
_DEFAULT_NAMESPACE = "library"
_MAX_MANIFEST_BYTES = 1 << 20


class _Layer(msgspec.Struct, frozen=True):
    digest: str
    size: int = 0
    media_type: str = msgspec.field(name="mediaType", default="")


class _Manifest(msgspec.Struct, frozen=True):
    layers: tuple[_Layer, ...] = ()


def ollama_files(store: Path) -> Iterator[FoundFile]:
    """The models of one store, by name and tag. A manifest that cannot be understood is passed over."""
    for path in sorted((store / "manifests").glob("*/*/*/*")):
        manifest = _read_manifest(path)
        model = next((layer for layer in manifest.layers if layer.media_type == _MODEL), None) if manifest else None
        if manifest and model and (blob := _blob(store, model)):
            yield _found(store, path, manifest, model, blob)


def _found(store: Path, path: Path, manifest: _Manifest, model: _Layer, blob: Path) -> FoundFile:
    namespace, name, tag = path.parts[-3:]
    short = name if namespace == _DEFAULT_NAMESPACE else f"{namespace}/{name}"
    stated = next((layer for layer in manifest.layers if layer.media_type == _PROJECTOR), None)
    projector = _blob(store, stated) if stated else None
    has_projector = projector is not None and projector.is_file()
    return FoundFile(
        path=blob,
        source=ModelSource.OLLAMA,
        origin="ollama",
        label=f"{short}:{tag}",
        projector=projector if has_projector else None,
        projector_bytes=stated.size if stated and has_projector else 0,
        wanted_bytes=model.size,
    )


def _read_manifest(path: Path) -> _Manifest | None:
    try:
        if not path.is_file() or path.stat().st_size > _MAX_MANIFEST_BYTES:
            return None
        return msgspec.json.decode(path.read_bytes(), type=_Manifest)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _blob(store: Path, layer: _Layer) -> Path | None:
    """The file of a layer; None for a digest that is none, which keeps `..` out of the path."""
    found = _DIGEST.match(layer.digest)
    return store / "blobs" / f"sha256-{found[1]}" if found else None
