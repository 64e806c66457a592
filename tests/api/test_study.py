"""The study of docs/studies.md, as it is printed there but smaller."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.paths import ROOT

SMALLER = {
    "[0.0, 0.5, 0.9, 0.99]": "[0.0, 0.99]",
    "range(6)": "range(2)",
    "rounds=60": "rounds=4, turns_per_round=10",
    'game={"tempted": 2}': 'game={"tempted": 2, "turns": 5}',
}
SMALLER_WORDS = {
    "seeds=0..5": ["seeds=0..1"],
    "discount=0.0,0.5,0.9,0.99": ["discount=0.0,0.99"],
    "rounds=60": ["rounds=4", "turns_per_round=10", "game.turns=5"],
}


def block(language: str) -> str:
    """Return the first block of this language on the page."""
    page = (ROOT / "docs" / "studies.md").read_text()
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return str(blocks[0])


def run(command: list[str], folder: Path) -> str:
    ended = subprocess.run(
        [sys.executable, "-W", "ignore", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_the_study_is_two_commands_or_five_lines_of_python() -> None:
    commands = block("sh").replace("\\\n", " ").strip().splitlines()
    assert len(commands) == 2
    assert all(command.startswith("rookery sweep ") for command in commands)
    statements = ast.parse(block("py")).body
    assert len(statements) == 5


def test_the_commands_give_a_table_with_intervals_and_a_figure(tmp_path: Path) -> None:
    lines = block("sh").replace("\\\n", " ").strip().splitlines()

    for line in lines:
        words = [y for x in shlex.split(line)[1:] for y in SMALLER_WORDS.get(x, [x])]
        out = run(["-m", "rookery", *words], tmp_path)

    header, *rows = out.splitlines()[:3]
    assert header.split()[0] == "discount"
    assert "stag" in header.split()
    for row, discount in zip(rows, ("0.0", "0.99"), strict=True):
        assert re.fullmatch(rf"{discount} +2 +2( +\S+ \[\S+, \S+\])+", row)
    assert (tmp_path / "stag.png").read_bytes().startswith(b"\x89PNG")


def test_the_lines_give_a_table_an_improvement_and_a_figure(tmp_path: Path) -> None:
    code = block("py")
    for text, smaller in SMALLER.items():
        assert text in code
        code = code.replace(text, smaller)

    out = run(["-c", code], tmp_path)

    assert out.split()[0] == "discount"
    assert re.fullmatch(r"[01]\.?\d* \[\S+, \S+\]", out.splitlines()[-1])
    assert (tmp_path / "stag.png").read_bytes().startswith(b"\x89PNG")
