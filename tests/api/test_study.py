"""The study of docs/studies.md, as it is printed there but smaller."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.paths import ROOT

SMALLER = {
    "(0.0, 0.5, 0.9, 0.99)": "(0.0, 0.9)",
    "range(6)": "range(2), callback=lambda result: None",  # without further processes
    "rounds=60": "rounds=4, turns_per_round=10, game={'turns': 5}",
}


def study() -> str:
    """Return the code of the study."""
    page = (ROOT / "docs" / "studies.md").read_text()
    (code,) = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return str(code)


def test_the_study_has_at_most_fifteen_lines() -> None:
    assert len([line for line in study().splitlines() if line]) <= 15


def test_the_study_gives_a_table_intervals_and_a_figure(tmp_path: Path) -> None:
    code = study()
    for text, smaller in SMALLER.items():
        assert text in code
        code = code.replace(text, smaller)

    command = [sys.executable, "-W", "ignore", "-c", code]
    ended = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=100
    )

    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    header, *rows, _ = ended.stdout.splitlines()
    assert header == "discount"
    for row in rows:
        assert re.fullmatch(r"0\.[09] +\S+ \[\S+, \S+\]", row)
    assert (tmp_path / "stag.png").read_bytes().startswith(b"\x89PNG")
