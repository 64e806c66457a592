"""Standard streams that are closed, full, broken or not Python's own."""

from __future__ import annotations

import io
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from rookery.stdio import guarded, take_lost

LOOK = """
import os, sys
from rookery.stdio import guarded
with guarded():
    opened = os.open("/", os.O_RDONLY)
    sys.stdout.write("hello")
    sys.stderr.write("hello")
    assert subprocess_sees(range(3))
assert opened > 2
"""
SEES = """
import subprocess, sys
def subprocess_sees(numbers):
    code = "import os, sys; [os.fstat(int(i)) for i in sys.argv[1:]]"
    return not subprocess.run([sys.executable, "-Sc", code, *map(str, numbers)]).returncode
"""
CLOSINGS = [
    " ".join(streams)
    for count in range(4)
    for streams in itertools.combinations(("<&-", ">&-", "2>&-"), count)
]


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)
    os.close(writer)


@pytest.fixture
def to_pipe(pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that makes a pipe Python's standard output, instead of pytest's."""

    def redirect() -> None:
        stream = open(pipe[1], "w", closefd=False, encoding="utf-8")  # noqa: SIM115
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "__stdout__", stream)

    return redirect


@pytest.mark.processes
@pytest.mark.parametrize("closed", CLOSINGS, ids=lambda closed: closed or "none")
def test_no_file_gets_the_descriptor_of_a_closed_stream(closed: str) -> None:
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", sys.executable, "-c", SEES + LOOK]

    ended = subprocess.run(command, capture_output=True, text=True)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout == ("" if ">&-" in closed.split() else "hello")


def test_a_stream_that_would_block_is_waited_for(
    to_pipe: Callable[[], None], pipe: tuple[int, int]
) -> None:
    os.set_blocking(pipe[1], False)
    received = bytearray()

    def read() -> None:
        while not received.endswith(b"end\n"):
            received.extend(os.read(pipe[0], 2**12))

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    to_pipe()
    with guarded():
        print("x" * 2**18)
        print("end")
    reader.join(60)

    assert len(received) == 2**18 + 5


def test_output_lost_on_a_full_disk_is_reported_once_and_the_rest_is_written(
    to_pipe: Callable[[], None], pipe: tuple[int, int]
) -> None:
    kept, full = os.dup(pipe[1]), os.open("/dev/full", os.O_WRONLY)
    to_pipe()

    with guarded():
        os.dup2(full, pipe[1])
        print("lost")
        first = take_lost()
        os.dup2(kept, pipe[1])
        print("kept")
        second = take_lost()
    os.close(kept)
    os.close(full)

    assert (first, second) == ("No space left on device", "")
    assert os.read(pipe[0], 100) == b"kept\n"


def test_a_library_can_still_write_after_the_reader_has_left(
    to_pipe: Callable[[], None], pipe: tuple[int, int]
) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, pipe[0])  # the reader leaves
    os.close(null)
    to_pipe()

    with guarded():
        print("hello")
        lost = take_lost()

    assert lost == ""
    assert os.write(pipe[1], b"hello") == 5


def test_streams_are_restored_when_the_last_guard_ends(
    to_pipe: Callable[[], None],
) -> None:
    to_pipe()
    before = sys.stdout

    with guarded():
        inside = sys.stdout
        with guarded():
            pass
        after_the_first = sys.stdout

    assert after_the_first is inside is not before
    assert sys.stdout is before


def test_a_stream_that_is_not_pythons_own_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notebook = io.StringIO()
    monkeypatch.setattr(sys, "stdout", notebook)

    with guarded():
        print("hello")

    assert notebook.getvalue() == "hello\n"
