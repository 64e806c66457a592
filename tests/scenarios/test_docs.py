"""Every code block and every command of the docs runs, page by page, in order."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.paths import ROOT

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(python|toml|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SKIPPED = {"make test", "make quick", "make demo"}  # the tests and the demo itself


@pytest.mark.timeout(300)  # a page can train several times, and compile everything first
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_of_the_page_runs(page: Path, tmp_path: Path) -> None:
    for language, text in BLOCK.findall(page.read_text()):
        if language == "console":
            for line in text.splitlines():
                run_command(line.removeprefix("$ "), tmp_path)
        else:
            run_python(text, tmp_path)


def run_command(line: str, folder: Path) -> None:
    if line in SKIPPED:
        return
    program, *arguments = shlex.split(line)
    assert program == "rookery", f"the docs show a command this test cannot run: {line}"
    run([sys.executable, "-m", "rookery", *arguments], folder)


def run_python(text: str, folder: Path) -> None:
    named = re.match(r"# file: (\S+)\n", text)
    if named:
        (folder / named[1]).write_text(text)
    else:
        run([sys.executable, "-c", text], folder)


def run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, f"{command}:\n{done.stdout}\n{done.stderr}"
