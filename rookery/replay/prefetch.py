"""Asking the processor for memory before it is read.

Batches are drawn at random from more rows than fit its caches. A loop over them would wait
for every row; asked for in advance, several are on their way at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

from rookery.specs import Array

CACHE_LINE = 64
"""Bytes that come at once."""


def _prefetch(context: Any, array: Any, i: Any, j: Any, offset: Any) -> Any:
    """Ask for the memory at `offset` bytes from `array[i, j]`; for kernels.

    It is only a hint: nothing is read, so nothing can be read out of bounds.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        helpers: Any = cgutils
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        strides = helpers.unpack_tuple(builder, array.strides)
        address = arguments[3]
        for stride, index in zip(strides, arguments[1:3], strict=False):
            address = builder.add(address, builder.mul(stride, index))
        byte = ir.IntType(8).as_pointer()
        pointer = helpers.pointer_add(builder, array.data, address, byte)
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


declare: Callable[..., Any] = intrinsic
prefetch: Callable[[Array, int, int, int], None] = declare(_prefetch)
