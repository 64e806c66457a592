"""Waiting in the kernel until a number in shared memory changes.

No process owns a futex: a waiting process is woken by the next store or by its timeout,
even if all other processes are dead. On systems without futexes, it sleeps briefly instead.
"""

from __future__ import annotations

import ctypes
import platform
import sys
import time

NUMBERS = {"x86_64": 202, "aarch64": 98, "riscv64": 98}
WAIT, WAKE, ALL = 0, 1, 2**31 - 1
SHORT_SLEEP = 0.0005


class _Time(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


_number = NUMBERS.get(platform.machine()) if sys.platform == "linux" else None
HAS_FUTEX = _number is not None and sys.byteorder == "little"
_call = ctypes.CDLL(None).syscall if HAS_FUTEX else None


def wait_for_change(address: int, value: int, seconds: float) -> None:
    """Wait until the 8-byte number at an address is no longer `value`, or for so long.

    A futex compares only the lower half, which is enough: counters grow in small steps.
    """
    if _call is None:
        time.sleep(min(seconds, SHORT_SLEEP))
        return
    whole = int(seconds)
    limit = _Time(whole, int((seconds - whole) * 1e9))
    lower = ctypes.c_uint32(value & 0xFFFFFFFF)
    _call(_number, ctypes.c_void_p(address), WAIT, lower, ctypes.byref(limit), None, 0)


def wake(address: int) -> None:
    """Wake all processes that wait for the number at an address."""
    if _call is not None:
        _call(_number, ctypes.c_void_p(address), WAKE, ALL, None, None, 0)
