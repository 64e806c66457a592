"""A process that trains cells and tells of them on its standard output.

Little is imported here, because the process that starts it can be one beside every cell.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rookery.supervisor.launcher import ONE_THREAD, python_path

CODE = (
    "import sys; from importlib import import_module; "
    "from rookery.supervisor.child import die_with; "
    "die_with(int(sys.argv.pop(1))); import_module(sys.argv.pop(1)).main()"
)
"""What a child runs, which ends with the process that started it."""
EVENT = b'{"event": '
"""How a line begins that tells of an event."""


class Child:
    """A process in a session of its own; its output goes to memory: a pipe could fill.

    Args:
        module: whose `main` it calls.
        arguments: of the process.
        folder: its working directory; by default that of this process.
        path: PYTHONPATH.
    """

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        folder: Path | None = None,
        path: str | None = None,
    ) -> None:
        self._stdout, self._stderr = (os.memfd_create(name) for name in ("out", "err"))
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_")}
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", CODE, str(os.getpid()), module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=self._stdout,
            stderr=self._stderr,
            cwd=folder,
            start_new_session=True,
            env=environment | ONE_THREAD | {"PYTHONPATH": path or python_path()},
        )
        self._position = 0

    def output(self) -> bytes:
        """Return everything that it has printed."""
        # With pread, since the process writes at the position that a read would move.
        return os.pread(self._stdout, os.fstat(self._stdout).st_size, 0)

    def new_events(self) -> list[dict[str, Any]]:
        """Return what it has told since the last call."""
        size = os.fstat(self._stdout).st_size - self._position
        data = os.pread(self._stdout, size, self._position)
        complete = data[: data.rfind(b"\n") + 1]
        self._position += len(complete)
        events = []
        for line in complete.splitlines():
            if EVENT not in line:
                continue  # a game has printed it; it may also have begun an event's line
            try:
                event = json.loads(line[line.rindex(EVENT) :])
            except ValueError:
                continue
            if isinstance(event, dict) and "cell" in event:
                events.append(event)
        return events

    def last_error(self) -> str:
        """Return the last line that it printed on standard error."""
        data = os.pread(self._stderr, os.fstat(self._stderr).st_size, 0)
        lines = data.decode(errors="replace").strip().splitlines()
        return lines[-1].removeprefix("error: ") if lines else ""

    def close(self) -> None:
        """End the process, if it has not ended, and free its output."""
        self.process.kill()
        self.process.wait()
        os.close(self._stdout)
        os.close(self._stderr)
