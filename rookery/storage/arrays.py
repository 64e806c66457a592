"""Named arrays in safetensors files: looked at first, and read only if they are sound.

What a header says is compared with the size of the file, and with what the reader expects,
before anything of that size is allocated. So a damaged or forged file costs nothing.
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
from safetensors import SafetensorError
from safetensors.numpy import load as load_bytes
from safetensors.numpy import save as save_bytes

from rookery.errors import RookeryError
from rookery.specs import Array

HEADER_LIMIT = 2**20
LENGTH = 8
"""Bytes in front of a header, for its length."""
CHUNK = 2**20
DTYPES = {
    "BOOL": "|b1",
    "U8": "|u1",
    "I8": "|i1",
    **{f"U{8 * n}": f"<u{n}" for n in (2, 4, 8)},
    **{f"I{8 * n}": f"<i{n}" for n in (2, 4, 8)},
    **{f"F{8 * n}": f"<f{n}" for n in (2, 4, 8)},
}

Shapes = Mapping[str, tuple[tuple[int, ...], str]]
"""Array name to shape and numpy's name of the type."""


class CheckpointError(RookeryError):
    """A checkpoint is missing, damaged, or of another kind of run."""


class Damaged(ValueError):
    """What a file says cannot be true."""


def to_bytes(arrays: Mapping[str, Array], about: dict[str, str] | None = None) -> bytes:
    """Return named arrays as a safetensors file holds them."""
    return save_bytes({k: np.ascontiguousarray(a) for k, a in arrays.items()}, about)


def shapes_of(arrays: Mapping[str, Array]) -> dict[str, tuple[tuple[int, ...], str]]:
    """Return shape and type of every array."""
    return {name: (array.shape, array.dtype.str) for name, array in arrays.items()}


def bytes_of(shapes: Shapes) -> int:
    """Return how many bytes arrays take."""
    return sum(prod(s) * np.dtype(dtype).itemsize for s, dtype in shapes.values())


def parse_json(data: bytes | str) -> Any:
    """Return what JSON says, if it says it once and in numbers.

    Raises:
        Damaged: if it is no JSON, names something twice, or is nested too deep.
    """
    try:
        return json.loads(data, object_pairs_hook=_once, parse_constant=_no_number)
    except RecursionError as error:
        raise Damaged("it is nested too deep") from error
    except ValueError as error:  # also: no Unicode, and numbers of thousands of digits
        raise Damaged(" ".join(str(error).split())) from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise Damaged("it names something twice")
    return found


def _no_number(name: str) -> NoReturn:
    raise Damaged(f"{name} is no number")


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file to be read: no link, no pipe, no device.

    Raises:
        CheckpointError: if it cannot be read.
    """
    try:
        # Without O_NONBLOCK, opening a pipe would wait for its writer.
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise CheckpointError(f"{path} cannot be read (it is no file).")
            yield file
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise CheckpointError(f"{path} cannot be read ({reason}).") from error


def size_of(file: BinaryIO) -> int:
    """Return how long an open file is."""
    return os.fstat(file.fileno()).st_size


def sum_of(file: BinaryIO) -> str:
    """Return the SHA-256 of an open file from its start, a piece at a time."""
    file.seek(0)
    chain = hashlib.sha256()
    while piece := file.read(CHUNK):
        chain.update(piece)
    return chain.hexdigest()


def read_header(file: BinaryIO) -> tuple[dict[str, Any], dict[str, str]]:
    """Return shapes and types of the arrays in an open file, and what it says of itself.

    Raises:
        Damaged: if the header is none, or does not fit the size of the file.
    """
    size = size_of(file)
    file.seek(0)
    length = int.from_bytes(file.read(LENGTH), "little")
    if size < LENGTH or length > min(HEADER_LIMIT, size - LENGTH):
        raise Damaged(f"a header of {length} bytes in a file of {size}")
    header = parse_json(file.read(length))
    if not isinstance(header, dict):
        raise Damaged("its header names no arrays")
    about = header.pop("__metadata__", {})
    if not isinstance(about, dict) or not all(isinstance(v, str) for v in about.values()):
        raise Damaged("what its header says is no text")
    end = 0
    for name, (entry, first, last) in sorted(_spans(header), key=lambda one: one[1][1:]):
        if first != end or last - first != _size_of(name, entry):
            raise Damaged(f"its array {name[:60]!r} lies where it cannot")
        end = last
    if LENGTH + length + end != size:
        raise Damaged("its arrays do not fill it")
    shapes = {
        name: (tuple(entry["shape"]), DTYPES[entry["dtype"]])
        for name, entry in header.items()
    }
    return shapes, about


def _spans(header: dict[str, Any]) -> Iterator[tuple[str, tuple[Any, int, int]]]:
    for name, entry in header.items():
        keys = {"dtype", "shape", "data_offsets"}
        if not isinstance(entry, dict) or set(entry) != keys:
            raise Damaged(f"its array {name[:60]!r} is not described")
        span, shape = entry["data_offsets"], entry["shape"]
        if not _are_sizes(span) or len(span) != 2 or not _are_sizes(shape):
            raise Damaged(f"its array {name[:60]!r} has no possible size")
        yield name, (entry, span[0], span[1])


def _are_sizes(found: Any) -> bool:
    return isinstance(found, list) and all(type(x) is int and x >= 0 for x in found)


def _size_of(name: str, entry: dict[str, Any]) -> int:
    dtype = entry["dtype"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise Damaged(f"its array {name[:60]!r} is of an unknown type")
    return prod(entry["shape"]) * np.dtype(DTYPES[dtype]).itemsize


def load_arrays(file: BinaryIO) -> tuple[bytes, dict[str, Array]]:
    """Return the bytes of an open file, whose header is sound, and the arrays in it."""
    file.seek(0)
    data = file.read(size_of(file))
    try:
        return data, dict(sorted(load_bytes(data).items()))
    except (SafetensorError, ValueError) as error:
        raise Damaged(" ".join(str(error).split())) from error


def read_arrays(path: Path, most: int) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the arrays of a file of at most so many bytes, and what it says of itself.

    Raises:
        CheckpointError: in one line.
    """
    with opened(path) as file:
        try:
            _, about = read_header(file)
            if size_of(file) > most + HEADER_LIMIT:
                raise Damaged(f"{size_of(file)} bytes, expected at most {most}")
            return load_arrays(file)[1], about
        except Damaged as error:
            raise CheckpointError(f"{path} cannot be read ({error}).") from error
