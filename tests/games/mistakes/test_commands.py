"""Mistakes in games and players are one line in every command, not only in `check`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rookery.cli import app as cli
from rookery.games.conformance import checks
from tests.games.mistakes.planted import COINS, NEWCOMER, OTHERS, Mistake
from tests.small import SMALL, overrides

PLANTED = {mistake.name: mistake for mistake in NEWCOMER + OTHERS}
TRAIN = [*overrides(SMALL | {"rounds": 2}), "agents.1.player=honest"]
EVALUATE = ["--players", "honest", "evaluate.episodes=4"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        cli.main(list(arguments))
    printed = capsys.readouterr()
    return int(leaving.value.code or 0), printed.out, printed.err


@pytest.fixture(autouse=True)
def in_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(checks, "TURNS", 20)
    monkeypatch.setattr(checks, "SEAT_TURNS", 40)


def write(text: str) -> str:
    Path("coins.py").write_text(text)
    return "./coins.py:Coins"


@pytest.mark.parametrize(
    "mistake",
    [
        PLANTED["player returns floats"],
        PLANTED["player returns one number"],
        PLANTED["action one too high"],
        PLANTED["misspelt label in a player"],
        PLANTED["player without its base's constructor"],
        PLANTED["reward of another shape"],
        PLANTED["misspelt layer"],
        PLANTED["if on an array"],
    ],
    ids=lambda mistake: mistake.name,
)
@pytest.mark.parametrize(
    "command",
    [["train", *TRAIN, "workers=0"], ["evaluate", *EVALUATE]],
    ids=["train", "evaluate"],
)
def test_mistake_ends_a_command_with_one_line(mistake: Mistake, command, capsys):
    name, *arguments = command

    code, _, errors = run(capsys, name, write(mistake.text), *arguments)

    assert code == 2
    line = errors.strip().splitlines()[-1]
    assert line.startswith("error: ")
    assert f"coins.py, line {mistake.line}" in line
    assert "Traceback" not in errors


@pytest.mark.processes
def test_what_a_player_raises_in_another_process_is_the_same_line(capsys):
    mistake = PLANTED["misspelt label in a player"]

    code, _, errors = run(capsys, "train", write(mistake.text), *TRAIN, "workers=1")

    assert code == 2
    assert errors.strip().splitlines()[-1] == (
        "error: the player of agent '1' raised in act(): ValueError: tuple.index(x): x "
        f"not in tuple (coins.py, line {mistake.line}): 'wal' is not there: did you mean "
        "'wall'?"
    )


def test_note_has_its_own_mark_and_does_not_fail_the_check(capsys):
    mistake = PLANTED["unknown tile"]

    code, printed, _ = run(capsys, "check", write(mistake.text))

    assert code == 0
    notes = [line for line in printed.splitlines() if line.startswith("! Legal, but odd:")]
    assert len(notes) == 1
    assert f"coins.py, line {mistake.line}: the tile 'gme' of 'red'" in notes[0]


def test_note_is_a_result_of_its_own_in_json(capsys):
    code, printed, _ = run(capsys, "check", write(PLANTED["unknown tile"].text), "--json")

    results = [check["result"] for check in json.loads(printed)["checks"]]
    assert code == 0
    assert results.count("note") == 1


def test_one_mistake_that_breaks_several_checks_is_explained_once(capsys):
    mistake = PLANTED["np.random"]

    code, printed, _ = run(capsys, "check", write(mistake.text))

    assert code == 1
    assert printed.count("np.random") == 1
    assert printed.count("it fails because of the random numbers above") == 4


def test_good_game_prints_only_passed_checks(capsys):
    code, printed, _ = run(capsys, "check", write(COINS))

    assert code == 0
    assert {line[0] for line in printed.splitlines()} == {"✓"}
