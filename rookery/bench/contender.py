"""A contender of a benchmark in its own process, which can be another interpreter.

Another interpreter can have what this one cannot: an older version of a library, or a
library whose requirements contradict ours. The contender measures its own time, waits
without using the processor while others are measured, and dies with the benchmark.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from rookery.errors import RookeryError
from rookery.supervisor.child import die_with
from rookery.supervisor.launcher import ONE_THREAD

FOLDER = str(Path(__file__).parents[2])
START = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from rookery.bench.contender import serve; serve()"
)
"""This package is found last, so that the interpreter's own libraries come first."""
VERSION = "from importlib.metadata import version; print(version({!r}))"


class Contender:
    """A process that measures itself when asked."""

    def __init__(
        self,
        python: str,
        module: str,
        task: Mapping[str, Any],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it and wait until it is ready.

        Args:
            python: the interpreter.
            module: of this package; its `prepare(task)` returns measurements by name.
            task: plain data for `prepare`.
            environment: variables for the process, besides those of this one.
        """
        arguments = [FOLDER, str(os.getpid()), module, json.dumps(task)]
        self._name = f"{python} ({module})"
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115
        self._process = subprocess.Popen(
            [python, "-P", "-c", START, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            env=os.environ | ONE_THREAD | dict(environment or {}),
        )
        self.measurements: list[str] = json.loads(self._read())

    def rate(self, measurement: str) -> float:
        """Make a measurement; return its rate."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{measurement}\n")
        self._process.stdin.flush()
        return float(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if line:
            return line
        self._process.wait()
        self._errors.seek(0)
        last = (self._errors.read().strip().splitlines() or ["no message"])[-1]
        self.close()
        raise RookeryError(
            f"{self._name} ended instead of measuring: {last}; expected an interpreter "
            "that has all libraries of this peer: install them there, or use another one."
        )

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()


def installed_version(python: str, package: str) -> str | None:
    """Return the version of a package in an interpreter; None if it is not installed."""
    done = subprocess.run(
        [python, "-P", "-c", VERSION.format(package)], capture_output=True, text=True
    )
    return done.stdout.strip() if done.returncode == 0 else None


def serve() -> None:
    """Prepare what the arguments ask for, then measure what every line of input names."""
    parent, module, task = sys.argv[2:]
    die_with(int(parent))
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries greet their users
    measurements: dict[str, Callable[[], float]] = import_module(module).prepare(
        json.loads(task)
    )
    print(json.dumps(list(measurements)), file=answers)
    for line in sys.stdin:
        print(measurements[line.strip()](), file=answers)
