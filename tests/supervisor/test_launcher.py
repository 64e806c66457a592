"""Starting one process, and how it ended."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from rookery.supervisor import launcher
from rookery.supervisor.launcher import ending, start


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (0, "ended with exit code 0"),
        (3, "ended with exit code 3"),
        (-9, "was killed by SIGKILL"),
        (-11, "was killed by SIGSEGV"),
        (-99, "was killed by signal 99"),
    ],
)
def test_how_a_process_ended_is_told_in_words(code: int, words: str) -> None:
    assert ending(code) == words


def descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


def test_a_process_that_is_refused_leaves_no_descriptor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*command: Any, **more: Any) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(launcher.subprocess, "Popen", refuse)
    before = descriptors()

    with pytest.raises(OSError, match="Cannot allocate memory"):
        start("actor", {}, {})

    assert descriptors() == before


def test_a_process_that_cannot_be_watched_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def spawn(*command: Any, **more: Any) -> subprocess.Popen[bytes]:
        started.append(popen(["sleep", "100"]))
        return started[-1]

    def refuse(pid: int) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(launcher.subprocess, "Popen", spawn)
    monkeypatch.setattr(launcher.os, "pidfd_open", refuse)
    before = descriptors()

    with pytest.raises(OSError, match="Too many open files"):
        start("actor", {}, {})

    assert started[0].returncode == -9
    assert descriptors() == before


@pytest.mark.processes
def test_a_process_that_says_nothing_is_told_by_how_it_ended() -> None:
    child = start("nonsense", {}, {})
    try:
        code, trouble = child.code(), child.trouble()
    finally:
        child.close()

    assert code == 1
    assert trouble["line"] == "KeyError: 'nonsense'"
    assert "Traceback" in trouble["traceback"]


@pytest.mark.processes
def test_a_process_whose_parent_is_another_leaves_at_once() -> None:
    command = [launcher.sys.executable, "-P", "-m", "rookery.supervisor.child"]

    done = subprocess.run([*command, "1", "0", "2"], timeout=60, check=False)

    assert done.returncode == 1


def test_a_process_gets_no_file_that_took_the_place_of_standard_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: dict[str, Any] = {}

    def refuse(*command: Any, **more: Any) -> None:
        given.update(more)
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(launcher.subprocess, "Popen", refuse)
    monkeypatch.setattr(launcher.sys, "__stderr__", None)

    with pytest.raises(OSError, match="Cannot allocate memory"):
        start("actor", {}, {})

    assert given["stdout"] == given["stderr"] == subprocess.DEVNULL
