"""Matrix products in compiled loops, computed by the BLAS library that torch comes with.

Each agent's product is a call of its own, so its bits cannot depend on the agent's group.
A call from a compiled loop costs nothing but the product, and an agent's numbers are still
in the processor's cache when the next loop reads them.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import torch
from llvmlite import binding  # type: ignore[import-untyped]
from numba.core import types

from rookery.errors import RookeryError
from rookery.kernels import kernel
from rookery.specs import Array

SYMBOL = "rookery_sgemm"
"""Compiled code, also that in the cache on disk, finds the function by this name."""


def find_sgemm() -> int:
    """Return the address of BLAS's matrix product in single precision."""
    (library,) = (Path(torch.__file__).parent / "lib").glob("libtorch_cpu.*")
    try:
        function = ctypes.CDLL(str(library)).sgemm_
    except AttributeError as error:
        raise RookeryError(
            f"{library} offers no 'sgemm_', expected BLAS as in PyTorch's own packages: "
            "install torch with pip."
        ) from error
    return ctypes.cast(function, ctypes.c_void_p).value or 0


binding.add_symbol(SYMBOL, find_sgemm())
_sgemm: Any = types.ExternalFunction(SYMBOL, types.void(*[types.intp] * 13))
"""With all arguments as addresses, as BLAS wants them."""
_LETTERS = np.frombuffer(b"NT", np.uint8)
_FACTORS = np.array([1, 0], np.float32)


@kernel
def multiply(x: Array, w: Array, y: Array) -> None:
    """Write y = x w."""
    _multiply(x, False, w, False, x.shape[1], y)


@kernel
def multiply_transposed_left(x: Array, y: Array, w: Array) -> None:
    """Write w = xᵀ y."""
    _multiply(x, True, y, False, x.shape[0], w)


@kernel
def multiply_transposed_right(y: Array, w: Array, x: Array) -> None:
    """Write x = y wᵀ."""
    _multiply(y, False, w, True, y.shape[1], x)


@kernel
def _multiply(
    a: Array, transpose_a: bool, b: Array, transpose_b: bool, inner: int, c: Array
) -> None:
    """Write c = a b, with either factor transposed; all are contiguous matrices.

    BLAS stores matrices by columns. To it, ours are transposed: cᵀ = bᵀ aᵀ.
    """
    sizes = np.empty(6, np.int32)
    sizes[0], sizes[1], sizes[2] = c.shape[1], c.shape[0], inner
    sizes[3], sizes[4], sizes[5] = b.shape[1], a.shape[1], c.shape[1]
    letters, factors, size = _LETTERS.ctypes.data, _FACTORS.ctypes.data, sizes.ctypes.data
    _sgemm(
        letters + int(transpose_b),
        letters + int(transpose_a),
        size,
        size + 4,
        size + 8,
        factors,
        b.ctypes.data,
        size + 12,
        a.ctypes.data,
        size + 16,
        factors + 4,
        c.ctypes.data,
        size + 20,
    )
