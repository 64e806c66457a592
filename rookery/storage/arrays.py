"""Named arrays in safetensors files, which can come from anyone.

Sizes are bounded first: the header's before it is parsed, the file's before it is read.
Within these bounds the safetensors library validates the header, so a damaged or forged
file is refused without costing memory.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load as load_bytes
from safetensors.numpy import save as save_bytes

from rookery.errors import ArrayFileError
from rookery.specs import Array

HEADER_LIMIT = 2**20
LENGTH = 8
"""Bytes in front of a header that hold its length."""
CHUNK = 2**20
SUM = "sum"
"""The key in a file's metadata of the checksum of everything else."""
REASON_LIMIT = 200
"""Characters of a reason that are shown: it can quote the file."""

Shapes = Mapping[str, tuple[tuple[int, ...], str]]
"""Array name to shape and numpy's name of the type."""


class Damaged(ValueError):
    """The contents of a file cannot be valid."""


def to_bytes(arrays: Mapping[str, Array], metadata: dict[str, str] | None = None) -> bytes:
    """Return named arrays in the safetensors format."""
    return save_bytes({k: np.ascontiguousarray(a) for k, a in arrays.items()}, metadata)


def to_checked_bytes(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> bytes:
    """Return the same with a checksum in the metadata, which `read_arrays` verifies."""
    return to_bytes(arrays, {**metadata, SUM: content_sum(arrays, metadata)})


def content_sum(arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> str:
    """Return the SHA-256 of named arrays and of all metadata except the sum itself."""
    chain = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        chain.update(f"{name} {array.dtype.str} {array.shape}".encode())
        chain.update(array.reshape(-1).view(np.uint8).data)
    rest = {name: text for name, text in metadata.items() if name != SUM}
    chain.update(json.dumps(rest, sort_keys=True).encode())
    return chain.hexdigest()


def shapes_of(arrays: Mapping[str, Array]) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return the shape and type of every array."""
    return {name: (array.shape, array.dtype.str) for name, array in arrays.items()}


def bytes_of(shapes: Shapes) -> int:
    """Return the number of bytes that arrays of these shapes take."""
    return sum(prod(s) * np.dtype(dtype).itemsize for s, dtype in shapes.values())


def parse_json(data: bytes | str) -> Any:
    """Return the value of a JSON document.

    Raises:
        Damaged: if it is not JSON, has a key twice, NaN or Infinity, or is nested too
            deep.
    """
    try:
        return json.loads(data, object_pairs_hook=_unique_keys, parse_constant=_refuse)
    except RecursionError as error:
        raise Damaged("it is nested too deep") from error
    except ValueError as error:  # also: invalid Unicode, and numbers of thousands of digits
        raise Damaged(_reason(error)) from error


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    group = dict(pairs)
    if len(group) != len(pairs):
        raise Damaged("it has a key twice")
    return group


def _refuse(constant: str) -> NoReturn:
    raise Damaged(f"{constant} is not a number")


def _reason(error: Exception) -> str:
    """Return an error's message as one short printable line."""
    text = " ".join(str(error).split())
    return "".join(c if c.isprintable() else "?" for c in text[:REASON_LIMIT])


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading; links, pipes and devices are refused.

    Raises:
        ArrayFileError: if it cannot be read.
    """
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ArrayFileError(f"{path} cannot be read (it is not a regular file).")
            yield file
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise ArrayFileError(f"{path} cannot be read ({reason}).") from error


def size_of(file: BinaryIO) -> int:
    """Return the size of an open file."""
    return os.fstat(file.fileno()).st_size


def sum_of(file: BinaryIO) -> str:
    """Return the SHA-256 of an open file, read from its start in pieces."""
    file.seek(0)
    chain = hashlib.sha256()
    while piece := file.read(CHUNK):
        chain.update(piece)
    return chain.hexdigest()


def read_header(file: BinaryIO) -> tuple[dict[str, Any], dict[str, str]]:
    """Return shapes and types of the arrays in an open file, and the file's metadata.

    Raises:
        Damaged: if the header is invalid or does not fit the size of the file.
    """
    file.seek(0)
    length = int.from_bytes(file.read(LENGTH), "little")
    if length > HEADER_LIMIT:  # the library's own bound is 100 MB
        raise Damaged(f"its header has {length} bytes, expected at most {HEADER_LIMIT}")
    # By descriptor: the path can lead to another file by now.
    path = f"/proc/self/fd/{file.fileno()}"
    try:
        with safe_open(path, framework="numpy") as content:
            names = content.keys()
            slices = {name: content.get_slice(name) for name in names}
            shapes = {
                name: (tuple(part.get_shape()), _numpy_type(part.get_dtype()))
                for name, part in slices.items()
            }
            return shapes, content.metadata() or {}
    except SafetensorError as error:
        raise Damaged(_reason(error)) from error


def _numpy_type(name: str) -> str:
    """Return numpy's name of a safetensors type: '<f4' for 'F32'."""
    if name == "BOOL":
        return np.dtype(bool).str
    try:
        return np.dtype(f"{name[0].lower()}{int(name[1:]) // 8}").str
    except (TypeError, ValueError) as error:  # BF16, F8_E4M3 …
        raise Damaged(f"it has arrays of type {name}, which numpy does not have") from error


def load_arrays(file: BinaryIO) -> tuple[bytes, dict[str, Array]]:
    """Return the bytes of an open file whose header was read, and the arrays in it."""
    file.seek(0)
    data = file.read(size_of(file))
    try:
        return data, dict(sorted(load_bytes(data).items()))
    except (SafetensorError, ValueError) as error:
        raise Damaged(_reason(error)) from error


def read_arrays(path: Path, most: int) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the arrays of a file and its metadata.

    Args:
        path: the file.
        most: the bytes that its arrays can have.

    Raises:
        ArrayFileError: if it is larger, cannot be read, or has a checksum that does not
            match. Files of earlier versions have none.
    """
    with opened(path) as file:
        try:
            if size_of(file) > most + HEADER_LIMIT:
                raise Damaged(f"{size_of(file)} bytes, expected at most {most}")
            _, metadata = read_header(file)
            arrays = load_arrays(file)[1]
            if SUM in metadata and metadata[SUM] != content_sum(arrays, metadata):
                raise Damaged("its checksum does not match its content")
            return arrays, metadata
        except Damaged as error:
            raise ArrayFileError(f"{path} cannot be read ({error}).") from error
