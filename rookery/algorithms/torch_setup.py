"""Process-wide settings of torch and numpy that results or speed depend on.

They hold for a whole process or thread: the type of new tensors, whether gradients are
enabled, the number of threads. A game, a probe or the program that calls the library can
change them. Rookery's results must not depend on that, so it computes in `standard_state`.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from contextlib import ContextDecorator, ExitStack
from types import TracebackType
from typing import Any

import numpy as np
import torch

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt."""
KEPT_BYTES = 1 << 30
LARGEST_BYTES = 32 << 20
"""The largest threshold that glibc accepts."""


def use_one_thread() -> None:
    """Make torch compute in one thread, and malloc keep the memory that is freed.

    The order of sums must not depend on the number of cores.
    """
    torch.set_num_threads(1)
    _keep_freed_memory()


def _keep_freed_memory() -> None:
    """Make malloc keep freed memory, if it is glibc's.

    An update allocates and frees temporaries of some megabytes. If they were returned to
    the system, each would come back as pages that are cleared one by one, which is slow.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries lack it
    if mallopt is not None:
        mallopt(TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(MMAP_THRESHOLD, LARGEST_BYTES)


# torch's private names, where the public ones take a microsecond each: this runs around
# every `act`.
_precision = torch._C._get_fp32_precision_getter
_set_precision = torch._C._set_fp32_precision_setter
_is_mkldnn_enabled = torch._C._get_mkldnn_enabled
_modes = torch._C._len_torch_function_stack
"""Number of modes that override torch's functions; a default device is one."""
_tiny = 5e-324
"""Becomes zero if denormal numbers are flushed, which torch has no getter for."""

State = tuple[Any, ...]
STANDARD: State = (torch.float32, True, False, 1, False, False, True, "ieee", "ieee", False)
for _float in (np.float32, np.float64):
    np.finfo(_float)  # numpy warns if it looks for the smallest one while it is flushed


def are_denormals_flushed() -> bool:
    """Whether denormal numbers become zero: the one setting that changes compiled loops."""
    return _tiny * 1.0 == 0.0


def _read() -> State:
    """Return all settings that results depend on, in the order of `SETTERS`."""
    return (
        torch.get_default_dtype(),
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.get_num_threads(),
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        _is_mkldnn_enabled(),
        _precision("mkldnn", "matmul").replace("none", "ieee"),
        _precision("mkldnn", "conv").replace("none", "ieee"),
        are_denormals_flushed(),
    )


def _set_deterministic(on: bool) -> None:
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    torch.use_deterministic_algorithms(on, warn_only=warn_only)


def _set_warn_only(on: bool) -> None:
    enabled = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(enabled, warn_only=on)


SETTERS: tuple[Callable[[Any], object], ...] = (
    torch.set_default_dtype,
    torch.set_grad_enabled,
    lambda on: torch.set_autocast_enabled("cpu", on),
    torch.set_num_threads,
    _set_deterministic,
    _set_warn_only,
    torch._C._set_mkldnn_enabled,
    lambda precision: _set_precision("mkldnn", "matmul", precision),
    lambda precision: _set_precision("mkldnn", "conv", precision),
    torch.set_flush_denormal,
)


def _write(state: State) -> None:
    """Change the settings that differ from a state."""
    current = _read()
    if current != state:
        for setter, value, old in zip(SETTERS, state, current, strict=True):
            if value != old:
                setter(value)


def _default_device() -> torch.device | None:
    """Return the default device for new tensors, but not one set by a `with` block."""
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if context is None else context.device


class standard_state(ContextDecorator):  # noqa: N801 - used like a function
    """Context in which torch and numpy compute as in a new process with one thread.

    Afterwards all settings are as before, whatever was changed inside. It wraps Rookery's
    own arithmetic, and users' code that is called from it.
    """

    def _recreate_cm(self) -> standard_state:
        return standard_state()

    def __enter__(self) -> None:
        self._numpy = np.errstate(
            divide="warn", over="warn", under="ignore", invalid="warn"
        )
        self._numpy.__enter__()
        self._scopes, self._device = ExitStack(), _default_device() if _modes() else None
        if self._device is not None:
            torch.set_default_device(None)
        self._modes = _modes()
        if self._modes:
            self._scopes.enter_context(torch.device("cpu"))
        if torch.is_inference_mode_enabled():
            self._scopes.enter_context(torch.inference_mode(False))
        self._before = _read()
        if self._before != STANDARD:
            _write(STANDARD)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _write(self._before)
        self._scopes.close()
        if self._device is not None or _modes() != self._modes:  # or it was set inside
            torch.set_default_device(self._device)
        self._numpy.__exit__(kind, error, trace)


class flushed_denormals(ContextDecorator):  # noqa: N801 - used like a function
    """Context in which denormal numbers are flushed to zero, for updates.

    Adam's moments of units that are never active end as denormal numbers, on which every
    operation takes several times as long. Games never run in this context.
    """

    def _recreate_cm(self) -> flushed_denormals:
        return flushed_denormals()

    def __enter__(self) -> None:
        self._before = are_denormals_flushed()
        torch.set_flush_denormal(True)

    def __exit__(self, *error: object) -> None:
        torch.set_flush_denormal(self._before)
