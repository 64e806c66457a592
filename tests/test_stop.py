"""Signals that ask a process to stop."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rookery.stop import UNFINISHED

LATE = """
import os, signal, sys
from rookery.stop import UNFINISHED, StopFlag

class Last:
    def __del__(self, kill=os.kill, process=os.getpid(), number=signal.SIGTERM):
        kill(process, number)

last = Last()  # deleted when Python has already removed its handlers
with StopFlag().listening(to_the_end=True):
    os.kill(os.getpid(), signal.SIGUSR1)
sys.exit(UNFINISHED)
"""


@pytest.mark.processes
@pytest.mark.shows("E9")
def test_a_second_signal_does_not_change_the_exit_code_however_late_it_comes() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, text=True)

    assert done.returncode == UNFINISHED
    assert done.stderr == "stopping: saving the last complete round\n"
