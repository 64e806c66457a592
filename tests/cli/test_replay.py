"""`rookery replay` and `rookery record`: thin layers over the functions of their names."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import rookery
from rookery.cli import app as cli
from rookery.config.parse import nested
from tests.small import HUNT


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    settings = {**HUNT, "rounds": 4, "workers": 0, "checkpoints.weights_every_rounds": 2}
    folder = tmp_path_factory.mktemp("replay") / "hunt"
    rookery.train("treasurehunt", run=folder, **nested(settings))
    return str(folder)


@pytest.fixture(autouse=True)
def in_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        cli.main(list(arguments))
    printed = capsys.readouterr()
    return int(leaving.value.code or 0), printed.out, printed.err


def test_early_and_late_agents_are_shown_side_by_side(
    folder: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, more in {
        "early.gif": ["--round", "2"],
        "again.gif": [],
        "late.gif": [],
    }.items():
        source = f"{folder}@2" if name == "again.gif" else folder
        code, printed, _ = run(capsys, "replay", source, "--out", name, *more)
        assert code == 0
        assert f"The episode: {name}" in printed

    early, again, late = (
        Path(name).read_bytes() for name in ("early.gif", "again.gif", "late.gif")
    )
    assert early == again != late
    assert {path.name for path in tmp_path.iterdir()} == {
        "early.gif",
        "again.gif",
        "late.gif",
    }


def test_the_command_writes_what_the_function_returns(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    players = f"trained@2,forager,{folder}:0@2"
    arguments = ["--players", players, "--episode", "1", "seed=3"]
    code, _, _ = run(capsys, "replay", folder, *arguments, "--out", "x.safetensors")
    expected = rookery.replay(folder, players, episode=1, seed=3)

    shown = rookery.Recording.load("x.safetensors")

    assert code == 0
    assert shown.players == expected.players == ("trained@2", "forager", "hunt:0@2")
    assert all(
        np.array_equal(shown.arrays[name], array) for name, array in expected.arrays.items()
    )


def test_size_and_rate_are_those_of_the_file(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "replay", folder, "--out", "x.gif", "--size", "240", "--fps", "25")

    with Image.open("x.gif") as gif:
        assert gif.info["duration"] == 40
        assert 200 < gif.width <= 240


def test_without_a_file_the_run_gets_a_gif_and_a_recording_per_line_up(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed, _ = run(capsys, "replay", folder, "--json")
    mixed = ["--round", "2", "--players", "trained,random,random", "--episode", "1"]
    run(capsys, "replay", folder, *mixed)

    assert code == 0
    told = json.loads(printed)
    assert told["run"] == folder
    assert told["gif"] == f"{folder}/replays/trained-round-4.gif"
    assert told["recording"] == f"{folder}/recordings/trained-round-4.safetensors"
    assert told.keys() >= {"mean", "std", "agents"}
    other = Path(folder) / "replays" / "trained-random-random-round-2-episode-1.gif"
    assert other.is_file()


def test_every_turn_of_an_earlier_round_is_written_to_a_file(
    folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--round", "2", "--players", "trained,random,random"]
    code, printed, _ = run(
        capsys, "record", folder, "x.parquet", "evaluate.episodes=2", *arguments
    )

    assert code == 0
    assert printed == "x.parquet: 90 rows of 2 episodes\n"


ERRORS = {
    "round": (["--round", "3"], "has no weights of round 3; it has those of 2, 4."),
    "two rounds": (["@2", "--round", "4"], "name two rounds: leave one of them out"),
    "format": (["--out", "x.webm"], "'x.webm' does not end in .gif, .mp4, .png or"),
    "rate": (["--fps", "200"], "fps is 200.0, expected turns per second, at most 50"),
    "size": (["--size", "1"], "size is 1, expected the width in pixels"),
    "player": (["--players", "foragr"], "unknown player 'foragr'"),
    "config": (["--config", "x.toml"], "--config cannot be used with a run"),
    "folder": (["--run", "x"], "--run cannot be used with a run, which has its own"),
}


@pytest.mark.parametrize(("arguments", "words"), ERRORS.values(), ids=ERRORS)
def test_what_cannot_be_shown_is_one_line(
    folder: str,
    arguments: list[str],
    words: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = folder
    if arguments[0] == "@2":
        source, arguments = f"{folder}@2", arguments[1:]

    code, printed, error = run(capsys, "replay", source, *arguments)

    assert code == 2
    assert printed == ""
    assert error.count("\n") == 1
    assert words in error
    assert list(tmp_path.iterdir()) == []


def test_a_file_and_a_folder_of_a_new_run_are_not_both_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, error = run(capsys, "replay", "tag", "--out", "x.gif", "--run", "r")

    assert code == 2
    assert "--run cannot be used with --out, which names the file" in error
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").touch()

    code, _, error = run(capsys, "replay", "tag", "game.turns=3", "--out", "file/x.gif")

    assert code == 2
    assert error == (
        "error: file/x.gif cannot be written (File exists): name a file in a folder "
        "that you can write to.\n"
    )
