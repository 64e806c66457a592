"""What a process asks of the machine before it computes: one thread, memory at hand."""

from __future__ import annotations

import ctypes
import sys

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
