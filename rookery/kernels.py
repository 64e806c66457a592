"""Loops over arrays, compiled by numba: the decorator they all use.

A kernel may only use operations whose bits IEEE 754 fixes: +, −, ×, ÷, sqrt, comparisons,
conversions and integers. Not exp, log, tanh, cos or powers, whose bits depend on the
library and on the position in an array. Sums run in a fixed order, and nothing is fused or
reordered. So a number does not depend on what is computed beside it.

Literals in a kernel are float64: with float32 arrays, use `np.float32(…)` or arguments.
"""

from __future__ import annotations

import fcntl
import gc
import os
import sys
import time
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
WAIT_SECONDS = 60.0
"""How long to wait for another process that compiles the same function."""
POLL_SECONDS = 0.02
Scalar = Any
"""A number of the type that the caller passes."""
Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile a function at its first call, or load it from the cache on disk.

    The cache is beside the source file or, if that folder is read-only, in the user's
    cache folder. If that is read-only, too, every process compiles for itself.
    """
    # With numpy's error model, dividing by 0 gives inf or nan. The wrapper that is left out
    # is for calls from C, of which there are none.
    njit: Callable[..., Any] = numba.njit
    compiled = njit(function, error_model="numpy", no_cfunc_wrapper=True)
    with suppress(RuntimeError):  # if there is no folder for it
        compiled._cache = _Cache(function)
    return cast(Function, compiled)


def is_to_be_cached(function: Callable[..., Any]) -> bool:
    """Whether a kernel has a cache on disk that holds no code for it yet."""
    files = getattr(getattr(function, "_cache", None), "_cache_file", None)
    return files is not None and not files._load_index()


class _Cache(FunctionCache):
    """numba's cache, made safe for what it does not expect.

    It compiles again if any module of the package has changed, not just the one that a
    loop is in, since loops call loops of other modules. And it locks its files: of two
    processes that stored a function at the same time, one could load the other's code.

    Of processes that need the same function, one compiles it, and the others wait and load
    it. No two wait for each other, since a function never calls one that calls it.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        files = self._cache_file
        files._source_stamp = (files._source_stamp, _package_stamp())
        self._turn: int | None = None
        """The locked file of a function that this process is compiling."""

    def load_overload(self, *arguments: Any) -> Any:
        """Load the code for some types; None if this process has to compile it."""
        code = self._load(*arguments)
        if code is None:
            self._wait_for_turn()
            code = self._load(*arguments)  # another process may have stored it
        if code is not None:
            self.end_turn()
        return code

    def save_overload(self, *arguments: Any) -> None:
        """Store the code for some types."""
        try:
            with self._lock(fcntl.LOCK_EX):
                super().save_overload(*arguments)  # type: ignore[no-untyped-call]
        finally:
            self.end_turn()

    def end_turn(self) -> None:
        """Let other processes compile the function."""
        if self._turn is not None:
            os.close(self._turn)
            self._turn = None

    def _load(self, *arguments: Any) -> Any:
        with self._lock(fcntl.LOCK_SH):
            return super().load_overload(*arguments)  # type: ignore[no-untyped-call]

    def _wait_for_turn(self) -> None:
        """Wait until no other process compiles the function, but not forever."""
        if self._turn is None:
            path = Path(self._cache_path) / f"{self._impl.filename_base}.lock"
            self._turn = os.open(path, os.O_WRONLY | os.O_CREAT, 0o666)
        until = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < until:
            with suppress(BlockingIOError):
                fcntl.flock(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            time.sleep(POLL_SECONDS)

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


class _Compilation(event.Listener):
    """Announces, once, that loops are being compiled, and makes it faster.

    A user would wait in silence otherwise. Compiling makes many objects, but no garbage
    worth looking for.
    """

    def __init__(self) -> None:
        self._is_announced = False
        self._depth, self._collects_garbage = 0, False

    def on_start(self, event: event.Event) -> None:
        """Called before numba compiles a function, but not when it loads one."""
        if not _is_ours(event):
            return
        if not self._is_announced:
            self._is_announced = True
            if "ipykernel" in sys.modules or (sys.stderr and sys.stderr.isatty()):
                print(COMPILING, file=sys.stderr, flush=True)
        if self._depth == 0:  # functions are compiled while a caller of theirs is
            self._collects_garbage = gc.isenabled()
            gc.disable()
        self._depth += 1

    def on_end(self, event: event.Event) -> None:
        """Called after numba has compiled a function, or has failed to."""
        dispatcher = event.data["dispatcher"]
        # numba's `event.is_failed` is always False here.
        has_failed = tuple(event.data["args"]) not in dispatcher.overloads
        if has_failed and isinstance(dispatcher._cache, _Cache):
            dispatcher._cache.end_turn()
        if not _is_ours(event):
            return
        self._depth -= 1
        if self._depth == 0 and self._collects_garbage:
            gc.enable()


def _is_ours(event: event.Event) -> bool:
    module: str = event.data["dispatcher"].py_func.__module__
    return module.startswith("rookery.")


_register: Callable[..., None] = event.register
_register("numba:compile", _Compilation())
