"""One thread per process: sums must not depend on how many cores there are."""

from __future__ import annotations

import torch


def use_one_thread() -> None:
    """Let torch compute in this thread alone."""
    torch.set_num_threads(1)
