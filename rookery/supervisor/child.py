"""A child's first code: it ties its life to its parent's before anything heavy is loaded.

Started as `python -P -m rookery.supervisor.child PARENT TOLD TROUBLE`: the parent's id, and
two descriptors: what the child is told (JSON), and where it says what went wrong.
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

from rookery.streams import guarded

PR_SET_PDEATHSIG = 1
CODE = {
    "actor": ("rookery.actor.process", "play"),
    "worker": ("rookery.learner.process", "learn"),
}
BUG, TOLD = 1, 2
"""Exit codes: a mistake of ours, or something the user can put right."""


def main() -> None:
    """Be a process of a run."""
    parent, told, trouble = (int(word) for word in sys.argv[1:4])
    die_with(parent)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for main to act on
    faulthandler.register(signal.SIGUSR1, file=trouble, all_threads=True)
    data = json.loads(read_all(told))
    sys.path[:] = data["path"]
    try:
        with guarded():
            sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
            run(data)
    except BaseException as error:
        os._exit(_report(error, trouble))
    os._exit(0)  # nothing of ours is left to do, and libraries' exits take time


def die_with(parent: int) -> None:
    """Make the system kill this process when its parent dies, however it dies."""
    with suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before we asked
        os._exit(BUG)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("500")  # if memory runs out, main is not the one to go


def run(data: dict[str, object]) -> None:
    """Do what this process is for."""
    from importlib import import_module

    module, function = CODE[str(data["kind"])]
    # What is loaded stays: to look through all of torch for garbage, again and again, took
    # a tenth of the time until work began, and would take time from then on.
    gc.disable()
    code = import_module(module)
    gc.freeze()
    gc.enable()
    getattr(code, function)(data["brief"], data["memory"])


def read_all(descriptor: int) -> bytes:
    """Return what lies behind a descriptor, from its beginning."""
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(0)
        return file.read()


def _report(error: BaseException, trouble: int) -> int:
    """Write down what went wrong; return the exit code that goes with it."""
    mine = hasattr(error, "exit_code")
    said = {
        "kind": type(error).__name__,
        "line": str(error) if mine else f"{type(error).__name__}: {error}",
        "traceback": "".join(traceback.format_exception(error)),
    }
    os.write(trouble, json.dumps(said).encode())
    return TOLD if mine else BUG


if __name__ == "__main__":
    main()
