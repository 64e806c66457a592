"""Every mistake in a game or a player is one line: the user's line, and the cure."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rookery.errors import ConfigError
from rookery.games import builtin
from rookery.games.conformance import checks
from rookery.runs.configure import configure
from tests.games.mistakes.planted import NEWCOMER, OTHERS, Mistake


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a little of everything: the mistakes are gross."""
    monkeypatch.setattr(checks, "TURNS", 20)
    monkeypatch.setattr(checks, "HISTORIES", 2)
    monkeypatch.setattr(checks, "SEAT_WORLDS", 16)
    monkeypatch.setattr(checks, "SEAT_TURNS", 60)
    monkeypatch.setattr(checks, "CONTEST_WORLDS", 8)


def lines(path: Path, name: str = "Coins") -> Iterator[tuple[str, str]]:
    """Yield what `rookery check` says about a game that is not in order."""
    try:
        entry, config = configure(f"{path}:{name}")
    except ConfigError as error:
        yield "failed", str(error)
        return
    for finding in checks.check_game(entry, config.game.settings):
        if finding.result in ("failed", "note"):
            yield finding.result, finding.detail


@pytest.mark.parametrize("mistake", NEWCOMER + OTHERS, ids=lambda mistake: mistake.name)
def test_mistake_is_one_line_with_the_users_line_and_the_cure(mistake: Mistake, tmp_path):
    path = tmp_path / "coins.py"
    path.write_text(mistake.text)

    said = list(lines(path))

    result, line = said[0]
    assert result == ("note" if mistake.is_note else "failed"), said
    assert all(text in line for text in mistake.says), said
    assert f"line {mistake.line}" in line, said
    assert "\n" not in line


def test_game_without_a_mistake_has_neither_errors_nor_notes():
    path = Path(__file__).with_name("coins.py")

    assert list(lines(path)) == []


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("gambling", "Gambling"),
        ("matrix", "IteratedChicken"),
        ("tag", "Tag"),
    ],
)
def test_good_game_in_a_users_file_has_neither_errors_nor_notes(module, name, tmp_path):
    path = tmp_path / f"{module}.py"
    path.write_text((Path(builtin.__file__).parent / f"{module}.py").read_text())

    assert list(lines(path, name)) == []
