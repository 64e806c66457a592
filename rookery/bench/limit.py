"""The largest possible speed-up of this machine: matrix products in one process and in two.

Two cores that share caches, memory and power do less than twice the work of one. Two
processes cannot gain more than this.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import IO

from rookery.supervisor.child import die_with
from rookery.supervisor.launcher import ONE_THREAD

SIZE = 256
SECONDS = 0.7


class Pair:
    """Two processes that multiply matrices on demand."""

    def __init__(self) -> None:
        self._processes = [self._start() for _ in range(2)]
        for process in self._processes:
            _read_line(process.stdout)

    @staticmethod
    def _start() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "rookery.bench.limit", str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | ONE_THREAD,
        )

    def rate(self, processes: int) -> float:
        """Return products per second of one process, or of both together."""
        running = self._processes[:processes]
        for process in running:
            assert process.stdin is not None
            process.stdin.write(f"{SECONDS}\n")
            process.stdin.flush()
        return sum(float(_read_line(process.stdout)) for process in running)

    def close(self) -> None:
        """Kill both."""
        for process in self._processes:
            process.kill()
            process.communicate()


def _read_line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


def _serve() -> None:
    import torch

    torch.set_num_threads(1)
    left, right = torch.rand(SIZE, SIZE), torch.rand(SIZE, SIZE)
    torch.mm(left, right)
    print("ready", flush=True)
    for line in sys.stdin:
        count, started = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - started) < float(line):
            torch.mm(left, right)
            count += 1
        print(count / elapsed, flush=True)


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    _serve()
