"""What a process asks of torch, numpy and the machine before it computes.

Torch and numpy have settings that hold for a whole process or thread: the type of new
tensors, whether gradients are kept, how many threads there are. A game, a probe or whoever
calls the library may change them, and whatever Rookery computes must not notice: it is
computed in `standard_state`.
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
"""Names of glibc's mallopt."""
KEPT_BYTES = 1 << 30
LARGEST_BYTES = 32 << 20
"""The largest threshold that glibc accepts."""


def use_one_thread() -> None:
    """Let torch compute in this thread alone, with the memory it has used before.

    Sums must not depend on how many cores there are.
    """
    torch.set_num_threads(1)
    _keep_freed_memory()


def _keep_freed_memory() -> None:
    """Let malloc keep what is freed, where it can be told to.

    An update makes and drops temporaries of some megabytes. Given back to the system,
    each would come back as pages that are cleared one by one, which costs time.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other libraries have none
    if mallopt is not None:
        mallopt(TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(MMAP_THRESHOLD, LARGEST_BYTES)


# Read straight from torch where its public names take a microsecond each: this is done
# around every act.
_precision = torch._C._get_fp32_precision_getter
_set_precision = torch._C._set_fp32_precision_setter
_is_mkldnn_enabled = torch._C._get_mkldnn_enabled
_modes = torch._C._len_torch_function_stack
"""How many modes change what torch's functions do; a default device is one."""
_tiny = 5e-324
"""Becomes zero where denormal numbers are flushed, which torch cannot be asked."""

State = tuple[Any, ...]
STANDARD: State = (torch.float32, True, False, 1, False, False, True, "ieee", "ieee", False)


def _read() -> State:
    """Return everything that results depend on, in the order of `SETTERS`."""
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
        _tiny * 1.0 == 0.0,
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


def _put(wanted: State) -> None:
    """Set what is not as wanted."""
    found = _read()
    if found != wanted:
        for put, value, old in zip(SETTERS, wanted, found, strict=True):
            if value != old:
                put(value)


def _default_device() -> torch.device | None:
    """Return the device that was set for new tensors; not one of a `with` block."""
    context = getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    return None if context is None else context.device


class standard_state(ContextDecorator):  # noqa: N801 - it is used like a function
    """Lets torch and numpy compute as in a new process with one thread.

    Afterwards everything is as it was before, whatever has been changed inside. So it
    stands around our own arithmetic, and around users' code that is called from it.
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
        _put(STANDARD)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _put(self._before)
        self._scopes.close()
        if self._device is not None or _modes() != self._modes:  # or it was set inside
            torch.set_default_device(self._device)
        self._numpy.__exit__(kind, error, trace)
