"""Loops over arrays, compiled by numba: the decorator they all use.

A kernel may only use operations whose bits IEEE 754 fixes: +, −, ×, ÷, sqrt, comparisons,
conversions and integers. Not exp, log, tanh, cos or powers, whose bits depend on the
library and on the position in an array. Sums run in a fixed order, and nothing is fused or
reordered. So a number does not depend on what is computed beside it.

Literals in a kernel are float64: with float32 arrays, use `np.float32(…)` or arguments.
"""

from __future__ import annotations

import fcntl
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event
from numba.core.caching import FunctionCache

COMPILING = "compiling loops for this processor: a few seconds, once …"
Scalar = Any
"""A number of the type that the caller passes."""
Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function at its first call, or load it from the cache on disk.

    The cache is beside the source file or, if that folder is read-only, in the user's
    cache folder. If that is read-only, too, every process compiles for itself.
    """
    # With numpy's error model, dividing by 0 gives inf or nan.
    njit: Callable[..., Any] = numba.njit
    compiled = njit(function, error_model="numpy")
    with suppress(RuntimeError):  # if there is no folder for it
        compiled._cache = _Cache(function)
    return cast(Function, compiled)


class _Cache(FunctionCache):
    """numba's cache, made safe for what it does not expect.

    It compiles again if any module of the package has changed, not just the one that a
    loop is in, since loops call loops of other modules. And it locks its files: of two
    processes that stored a function at the same time, one could load the other's code.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        files = self._cache_file
        files._source_stamp = (files._source_stamp, _package_stamp())

    def load_overload(self, *arguments: Any) -> Any:
        """Load the code for some types, if it is there."""
        with self._lock(fcntl.LOCK_SH):
            return super().load_overload(*arguments)  # type: ignore[no-untyped-call]

    def save_overload(self, *arguments: Any) -> None:
        """Store the code for some types."""
        with self._lock(fcntl.LOCK_EX):
            super().save_overload(*arguments)  # type: ignore[no-untyped-call]

    @contextmanager
    def _lock(self, kind: int) -> Iterator[None]:
        self._impl.locator.ensure_cache_path()
        with open(Path(self._cache_path) / "rookery.lock", "a") as file:
            fcntl.flock(file, kind)
            yield


@cache
def _package_stamp() -> str:
    """Return a checksum of the sizes and times of all modules of the package."""
    files = sorted(Path(__file__).parent.rglob("*.py"))
    states = [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    return sha256(repr(states).encode()).hexdigest()


class _Announcement(event.Listener):
    """Says that loops are being compiled, once, to a user who would wait in silence."""

    def __init__(self) -> None:
        self._is_made = False

    def on_start(self, event: event.Event) -> None:
        """Called before numba compiles a function, but not when it loads one."""
        is_ours = event.data["dispatcher"].py_func.__module__.startswith("rookery.")
        if is_ours and not self._is_made:
            self._is_made = True
            if "ipykernel" in sys.modules or (sys.stderr and sys.stderr.isatty()):
                print(COMPILING, file=sys.stderr, flush=True)

    def on_end(self, event: event.Event) -> None:
        """Called after numba has compiled a function."""


_register: Callable[..., None] = event.register
_register("numba:compile", _Announcement())
