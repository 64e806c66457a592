"""How compiled loops reach rows in memory.

Batches are drawn at random from more rows than fit the processor's caches. A loop over them
would wait for every row; with `prefetch`, several are on their way at once.

The numbers of a row are side by side, but numba does not know that: the columns of a
structured array have gaps. `contiguous` tells it, and loops over a row use vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from rookery.specs import Array

CACHE_LINE = 64
"""Bytes that come at once."""
helpers: Any = cgutils
populate: Callable[..., None] = populate_array


def _address(builder: Any, array: Any, indices: Any, offset: Any) -> Any:
    """Return the address of `offset` bytes from `array[i, j]`."""
    strides = helpers.unpack_tuple(builder, array.strides)
    for stride, index in zip(strides, indices, strict=False):
        offset = builder.add(offset, builder.mul(stride, index))
    return helpers.pointer_add(builder, array.data, offset, ir.IntType(8).as_pointer())


def _prefetch(context: Any, array: Any, i: Any, j: Any, offset: Any) -> Any:
    """Ask for the memory at `offset` bytes from `array[i, j]`; for kernels.

    It is only a hint: nothing is read, so nothing can be read out of bounds.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        pointer = _address(builder, array, arguments[1:3], arguments[3])
        number = ir.IntType(32)
        parameters = [pointer.type, number, number, number]
        function = builder.module.declare_intrinsic(
            "llvm.prefetch",
            [pointer.type],
            ir.FunctionType(ir.VoidType(), parameters),
        )
        # For reading, to be kept in all caches, data.
        builder.call(function, [pointer, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, types.int64, types.int64, types.int64), generate


def _contiguous(context: Any, array: Any, i: Any, j: Any) -> Any:
    """Return `array[i, j]`, whose numbers must be side by side, for kernels.

    The array must outlive it, and indices are not checked.
    """
    row = types.Array(array.dtype, 1, "C", aligned=array.aligned)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        size, zero = array.itemsize, context.get_constant(types.intp, 0)
        result = context.make_array(row)(context, builder)
        data = _address(builder, array, arguments[1:3], zero)
        populate(
            result,
            data=builder.bitcast(data, array.data.type),
            shape=helpers.unpack_tuple(builder, array.shape)[2:],
            strides=[size],
            itemsize=size,
            meminfo=None,
        )
        return result._getvalue()

    return row(array, types.int64, types.int64), generate


declare: Callable[..., Any] = intrinsic
prefetch: Callable[[Array, int, int, int], None] = declare(_prefetch)
contiguous: Callable[[Array, int, int], Array] = declare(_contiguous)
