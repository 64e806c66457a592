"""A pseudo-terminal to run commands in, and the screen as a user would see it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

ROWS, COLUMNS = 40, 120
ESCAPE = re.compile(r"\x1b\[(?P<private>\??)(?P<numbers>[\d;]*)(?P<letter>[A-Za-z])")


class Screen:
    """The text that is visible after some output.

    It knows the escape sequences that rich uses: those that move up and erase lines, and
    those for colours and the cursor's look, which are ignored. Others are an error.
    """

    def __init__(self) -> None:
        self.lines = [""]
        self._row = self._column = 0

    def __str__(self) -> str:
        return "\n".join(line.rstrip() for line in self.lines)

    def feed(self, text: str) -> str:
        """Show text; return an escape sequence at its end that is not complete."""
        while text:
            escape = ESCAPE.match(text)
            if escape:
                self._obey(escape)
                text = text[escape.end() :]
                continue
            if text[0] == "\x1b":
                assert len(text) < 12, f"an unknown escape sequence: {text[:12]!r}"
                return text
            if text[0] == "\r":
                self._column = 0
            elif text[0] == "\n":
                self._row += 1
                if self._row == len(self.lines):
                    self.lines.append("")
            else:
                self._write(text[0])
            text = text[1:]
        return ""

    def _write(self, character: str) -> None:
        line = self.lines[self._row].ljust(self._column)
        self.lines[self._row] = line[: self._column] + character + line[self._column + 1 :]
        self._column += 1

    def _obey(self, escape: re.Match[str]) -> None:
        letter, numbers = escape["letter"], escape["numbers"]
        if letter == "A":
            self._row = max(0, self._row - int(numbers or 1))
        elif (letter, numbers) == ("K", "2"):
            self.lines[self._row] = ""
        else:
            assert letter == "m" or escape["private"], f"an unknown sequence: {escape[0]!r}"


class Terminal:
    """`rookery` in a separate terminal, in which Ctrl-C can be pressed."""

    def __init__(
        self, *arguments: str, cwd: Path, rows: int = ROWS, columns: int = COLUMNS
    ) -> None:
        self.screen = Screen()
        self.output = ""
        """Everything that was printed, with escape sequences."""
        self._unread = ""
        self._main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        unset = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")
        environment = {k: v for k, v in os.environ.items() if k not in unset}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rookery", *arguments],
            cwd=cwd,
            env={**environment, "TERM": "xterm"},
            preexec_fn=lambda: os.login_tty(side),
            close_fds=False,
        )
        os.close(side)

    def read_until(self, condition: Callable[[str], bool] = lambda screen: False) -> int:
        """Read until the screen meets a condition, or to the end; return the exit code.

        Before the end, the exit code is -1.
        """
        partial = b""
        while True:
            try:
                data = os.read(self._main, 65536)
            except OSError:  # the other side is closed: the process has ended
                data = b""
            if not data:
                os.close(self._main)
                return self._process.wait(60)
            partial += data
            try:
                text = partial.decode()
            except UnicodeDecodeError:
                continue  # a character has not arrived completely
            partial = b""
            self.output += text
            self._unread = self.screen.feed(self._unread + text)
            if condition(str(self.screen)):
                return -1

    def press_ctrl_c(self) -> None:
        os.write(self._main, b"\x03")

    def kill(self) -> None:
        """End the process, if it has not ended."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
