"""Starting a process, and how it ended."""

from __future__ import annotations

import os
import string
import subprocess
from collections.abc import Mapping
from typing import Any

import pytest

from rookery.supervisor import launcher
from rookery.supervisor.launcher import ending, start


def work(spec: Mapping[str, Any], memory: Mapping[str, Any]) -> None:
    """An entry point that is never called."""


def descriptors() -> list[str]:
    return sorted(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (0, "ended with exit code 0"),
        (3, "ended with exit code 3"),
        (-9, "was killed by SIGKILL"),
        (-11, "was killed by SIGSEGV"),
        (-99, "was killed by signal 99"),
    ],
)
def test_how_a_process_ended_is_said_in_words(code: int, text: str) -> None:
    assert ending(code) == text


def test_a_process_that_is_refused_leaves_no_descriptor(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*command: Any, **options: Any) -> None:
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(launcher.subprocess, "Popen", refuse)
    before = descriptors()

    with pytest.raises(OSError, match="Cannot allocate memory"):
        start("actor", work, {}, {})

    assert descriptors() == before


def test_a_process_that_cannot_be_watched_is_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def spawn(*command: Any, **options: Any) -> subprocess.Popen[bytes]:
        started.append(popen(["sleep", "100"]))
        return started[-1]

    def refuse(pid: int) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(launcher.subprocess, "Popen", spawn)
    monkeypatch.setattr(launcher.os, "pidfd_open", refuse)
    before = descriptors()

    with pytest.raises(OSError, match="Too many open files"):
        start("actor", work, {}, {})

    assert started[0].returncode == -9
    assert descriptors() == before


@pytest.mark.processes
def test_an_unexpected_error_is_reported_with_its_traceback() -> None:
    child = start("actor", string.capwords, {}, {})  # which takes no mappings
    try:
        code, error = child.code(), child.error()
    finally:
        child.close()

    assert code == 1
    assert error["line"] == "AttributeError: 'dict' object has no attribute 'split'"
    assert "Traceback" in error["traceback"]


@pytest.mark.processes
def test_a_process_with_another_parent_leaves_at_once() -> None:
    command = [launcher.sys.executable, "-P", "-m", "rookery.supervisor.child"]

    process = subprocess.run([*command, "1", "0", "2"], timeout=60, check=False)

    assert process.returncode == 1


def test_a_process_does_not_get_a_file_in_place_of_standard_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    options: dict[str, Any] = {}

    def refuse(*command: Any, **given: Any) -> None:
        options.update(given)
        raise OSError(12, "Cannot allocate memory")

    monkeypatch.setattr(launcher.subprocess, "Popen", refuse)
    monkeypatch.setattr(launcher.sys, "__stderr__", None)

    with pytest.raises(OSError, match="Cannot allocate memory"):
        start("actor", work, {}, {})

    assert options["stdout"] == options["stderr"] == subprocess.DEVNULL
