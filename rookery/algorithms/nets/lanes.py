"""Adding rows of weights, with the sums kept in the processor's registers.

A loop over columns would load and store every sum for each row, since the compiler cannot
know that sums and weights are not in the same memory. Here it is told to use vectors: of
`WIDE` columns, which is as many as there are registers for, and of `LANES`, which all
padded widths are multiples of. A column is summed in the order of the rows, one product
after the other, so its bits are those of a plain loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic

from rookery.algorithms.nets.layers import LANES
from rookery.kernels import kernel
from rookery.specs import Array

WIDE = 4 * LANES
AddRows = Callable[[Array, int, Array, Array, Array, int], None]


def _add_rows(lanes: int) -> AddRows:
    """Return a function for kernels: add weight[indices[i]] × factors[i] for i < count.

    It adds to the columns of `sums` from `first` on, `lanes` of them. Arrays are
    contiguous, sums, weights and factors float32, and indices int64.
    """
    vector, number = ir.VectorType(ir.FloatType(), lanes), ir.IntType(32)
    undefined = ir.Constant(vector, ir.Undefined)
    everywhere = ir.Constant(ir.VectorType(number, lanes), [0] * lanes)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        helpers: Any = cgutils
        _, first, _, _, _, count = arguments
        sums, weight, indices, factors = (
            context.make_array(signature.args[i])(context, builder, arguments[i])
            for i in (0, 2, 3, 4)
        )

        def vector_at(data: Any, index: Any) -> Any:
            return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())

        _, columns = helpers.unpack_tuple(builder, weight.shape)
        target = vector_at(sums.data, first)
        total = helpers.alloca_once_value(builder, builder.load(target, align=4))
        with helpers.for_range(builder, count) as loop:
            row = builder.load(builder.gep(indices.data, [loop.index]))
            factor = builder.load(builder.gep(factors.data, [loop.index]))
            factor = builder.insert_element(undefined, factor, number(0))
            factor = builder.shuffle_vector(factor, undefined, everywhere)
            place = builder.add(builder.mul(row, columns), first)
            weights = builder.load(vector_at(weight.data, place), align=4)
            product = builder.fmul(factor, weights)
            builder.store(builder.fadd(builder.load(total), product), total)
        builder.store(builder.load(total), target, align=4)
        return context.get_dummy_value()

    def add_rows(
        context: Any, sums: Any, first: Any, weight: Any, indices: Any, factors: Any, n: Any
    ) -> Any:
        arrays = (sums, weight, indices, factors)
        assert all(array.layout == "C" for array in arrays)
        return types.void(sums, types.int64, *arrays[1:], types.int64), generate

    declare: Callable[..., Any] = intrinsic
    declared: AddRows = declare(add_rows)
    return declared


_add_wide, _add_narrow = _add_rows(WIDE), _add_rows(LANES)


@kernel
def add_rows(
    sums: Array, weight: Array, indices: Array, factors: Array, count: int
) -> None:
    """Add rows of weights times factors to all sums, a multiple of `LANES`, in order."""
    wide = len(sums) // WIDE * WIDE
    for first in range(0, wide, WIDE):
        _add_wide(sums, first, weight, indices, factors, count)
    for first in range(wide, len(sums), LANES):
        _add_narrow(sums, first, weight, indices, factors, count)
