"""The first code that a child process runs: it makes sure that the child dies with main.

Started as `python -P -m rookery.supervisor.child PARENT TASK ERROR`: the parent's process
id, and two descriptors: the child's task as JSON, and a file for the error it ends with.
Nothing heavy is imported before the child is tied to its parent.
"""

from __future__ import annotations

import ctypes
import faulthandler
import gc
import json
import os
import signal
import sys
import traceback
from contextlib import suppress
from typing import Any

from rookery.stdio import guarded
from rookery.stop import SIGNALS

PR_SET_PDEATHSIG = 1
DUMP_STACKS = signal.SIGUSR2
BUG, USER_ERROR = 1, 2
"""Exit codes: a bug in Rookery, or an error that the user can fix."""


def main() -> None:
    """Run the task that the parent has given."""
    parent, task, error_file = (int(argument) for argument in sys.argv[1:4])
    die_with(parent)
    # Main handles them; they reach this process, too, if sent to the whole group.
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    faulthandler.register(DUMP_STACKS, file=error_file, all_threads=True)
    # They were blocked when it was started.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [*SIGNALS, DUMP_STACKS])
    data = json.loads(read_all(task))
    sys.path[:] = data["path"]
    try:
        with guarded():
            sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
            run(data)
    except BaseException as error:
        os._exit(_report(error, error_file))
    os._exit(0)  # nothing is left to clean up, and libraries' exit handlers take time


def die_with(parent: int) -> None:
    """Have the system kill this process when its parent dies, however it dies."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os._exit(BUG)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")  # if memory runs out, main is not the one to be killed


def run(task: dict[str, Any]) -> None:
    """Import the entry point of a task and call it."""
    from importlib import import_module

    # What is imported is never freed: searching all of torch for garbage again and again
    # took a tenth of the startup time, and would take time from then on.
    gc.disable()
    module = import_module(task["module"])
    gc.freeze()
    gc.enable()
    getattr(module, task["function"])(task["spec"], task["memory"])


def read_all(descriptor: int) -> bytes:
    """Return the contents of a file, from its beginning."""
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()


def _report(error: BaseException, error_file: int) -> int:
    """Write an error down; return the exit code for it."""
    is_expected = hasattr(error, "exit_code")
    report = {
        "kind": type(error).__name__,
        "line": str(error) if is_expected else f"{type(error).__name__}: {error}",
        "traceback": "".join(traceback.format_exception(error)),
    }
    os.write(error_file, json.dumps(report).encode())
    return USER_ERROR if is_expected else BUG


if __name__ == "__main__":
    main()
