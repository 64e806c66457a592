"""One thread, and memory at hand where the system can be asked for it."""

from __future__ import annotations

import ctypes
import sys

import pytest
import torch

from rookery.algorithms.torch_setup import use_one_thread


def test_torch_computes_in_one_thread():
    torch.set_num_threads(2)

    use_one_thread()

    assert torch.get_num_threads() == 1


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_a_system_that_cannot_keep_freed_memory_is_left_as_it_is(monkeypatch, platform):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())

    use_one_thread()

    assert torch.get_num_threads() == 1


@pytest.mark.skipif(sys.platform != "linux", reason="asks glibc")
def test_the_system_accepts_what_it_is_asked_for(monkeypatch):
    library, answers = ctypes.CDLL(None), []
    if not hasattr(library, "mallopt"):
        pytest.skip("no glibc")

    class Asked:
        @staticmethod
        def mallopt(name, value):
            answers.append(library.mallopt(name, value))

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Asked)
    use_one_thread()

    assert answers == [1, 1]
