"""One thread, and malloc that keeps freed memory where it can."""

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
def test_a_system_without_mallopt_is_left_as_it_is(monkeypatch, platform):
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(ctypes, "CDLL", lambda name: object())

    use_one_thread()

    assert torch.get_num_threads() == 1


@pytest.mark.skipif(sys.platform != "linux", reason="asks glibc")
def test_mallopt_accepts_the_settings(monkeypatch):
    library, answers = ctypes.CDLL(None), []
    if not hasattr(library, "mallopt"):
        pytest.skip("no glibc")

    class Library:
        @staticmethod
        def mallopt(name, value):
            answers.append(library.mallopt(name, value))

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library)
    use_one_thread()

    assert answers == [1, 1]
