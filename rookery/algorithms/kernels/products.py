"""Matrix products in compiled loops, computed by the BLAS library that torch comes with.

Each agent's product is a call of its own, so its bits cannot depend on the agent's group.
A call from a compiled loop costs nothing but the product, and an agent's numbers are still
in the processor's cache when the next loop reads them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from llvmlite import binding, ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

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


def _sgemm(
    context: Any, a: Any, transpose_a: Any, b: Any, transpose_b: Any, sizes: Any, c: Any
) -> Any:
    """Call BLAS for c = a b; sizes are rows, columns and inner size of the product.

    BLAS takes the addresses of its arguments, and stores matrices by columns. To it, ours
    are transposed: cᵀ = bᵀ aᵀ.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        helpers: Any = cgutils
        array_types = (signature.args[0], signature.args[2], signature.args[5])
        a, b, c = (
            context.make_array(kind)(context, builder, arguments[i])
            for kind, i in zip(array_types, (0, 2, 5), strict=True)
        )
        number, letter, real = ir.IntType(32), ir.IntType(8), ir.FloatType()

        def stored(value: Any) -> Any:
            slot = helpers.alloca_once(builder, value.type)
            builder.store(value, slot)
            return slot

        def width(array: Any) -> Any:
            _, columns = helpers.unpack_tuple(builder, array.shape)
            return stored(builder.trunc(columns, number))

        def transposed(flag: Any) -> Any:
            yes, no = letter(ord("T")), letter(ord("N"))
            return stored(builder.select(builder.trunc(flag, ir.IntType(1)), yes, no))

        rows, columns, inner = (
            stored(builder.trunc(size, number))
            for size in helpers.unpack_tuple(builder, arguments[4])
        )
        values = [
            transposed(arguments[3]),
            transposed(arguments[1]),
            columns,
            rows,
            inner,
            stored(real(1.0)),
            b.data,
            width(b),
            a.data,
            width(a),
            stored(real(0.0)),
            c.data,
            width(c),
        ]
        kind = ir.FunctionType(ir.VoidType(), [value.type for value in values])
        function = helpers.get_or_insert_function(builder.module, kind, SYMBOL)
        builder.call(function, values)
        return context.get_dummy_value()

    return types.void(a, transpose_a, b, transpose_b, sizes, c), generate


declare: Callable[..., Any] = intrinsic
sgemm: Callable[..., None] = declare(_sgemm)


@kernel
def multiply(x: Array, w: Array, y: Array) -> None:
    """Write y = x w; all are contiguous matrices."""
    sgemm(x, False, w, False, (y.shape[0], y.shape[1], x.shape[1]), y)


@kernel
def multiply_transposed_left(x: Array, y: Array, w: Array) -> None:
    """Write w = xᵀ y."""
    sgemm(x, True, y, False, (w.shape[0], w.shape[1], x.shape[0]), w)


@kernel
def multiply_transposed_right(y: Array, w: Array, x: Array) -> None:
    """Write x = y wᵀ."""
    sgemm(y, False, w, True, (x.shape[0], x.shape[1], y.shape[1]), x)
