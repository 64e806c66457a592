"""The command line: one line for every error, one JSON object with --json."""

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from rookery.cli import app as cli
from tests.paths import GAME_FILES


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        cli.main(list(arguments))
    printed = capsys.readouterr()
    return int(leaving.value.code or 0), printed.out, printed.err


@pytest.fixture(autouse=True)
def in_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


ERRORS = {
    "unknown game": (["evaluate", "treasurehnt"], "did you mean 'treasurehunt'?"),
    "unknown key": (
        ["evaluate", "treasurehunt", "game.agnets=2"],
        "unknown setting 'game.agnets': did you mean 'game.agents'?",
    ),
    "unknown agent": (
        ["evaluate", "treasurehunt", "agents.7.player=random"],
        "'agents.7' matches no agent",
    ),
    "unknown player": (
        ["evaluate", "treasurehunt", "--players", "foragr"],
        "unknown player 'foragr' for 'treasurehunt': did you mean 'forager'?",
    ),
    "too few players": (
        ["evaluate", "treasurehunt", "--players", "random,random"],
        "--players names 2 players for 3 agents",
    ),
    "missing file": (["evaluate", "./nowhere.py:Zap"], "nowhere.py"),
    "missing config": (["evaluate", "--config", "none.toml"], "there is no file"),
    "wrong type": (["evaluate", "treasurehunt", "worlds=many"], "worlds must be a whole"),
    "negative size": (
        ["evaluate", "treasurehunt", "game.height=-3"],
        "game.height must be at least 3, got -3",
    ),
    "more agents than cells": (
        ["evaluate", "treasurehunt", "game.height=4", "game.width=4", "game.agents=9"],
        "game.agents is 9, but there is room to start for only 4: lower game.agents",
    ),
    "no game": (["evaluate"], "no game given"),
    "unknown command": (["evaluat"], "No such command 'evaluat'"),
    "almost a command": (["trainn"], "Did you mean 'train'? See `rookery --help`."),
    "missing run": (["evaluate", "runs/none"], "'runs/none' is neither a run nor a game"),
    "missing folder": (["digest", "runs/none"], "is not a run: no such folder"),
    "crossplay of nothing": (["crossplay", "runs/none"], "there is no run in 'runs/none'"),
    "missing agent": (
        ["train", "treasurehunt", "agents.0.from=none.safetensors"],
        "there is no file 'none.safetensors'",
    ),
    "unknown option": (["evaluate", "treasurehunt", "--runn", "x"], "No such option"),
    "unknown benchmark": (["bench", "gmae"], "did you mean 'game'?"),
    "no picture": (
        ["replay", "iterated_chicken"],
        "has no picture to show",
    ),
}


@pytest.mark.parametrize(("arguments", "expected"), ERRORS.values(), ids=ERRORS.keys())
def test_an_error_of_the_user_is_one_line_and_exit_code_2(
    arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed, stderr = run(capsys, *arguments)

    assert code == 2
    assert printed == ""
    assert stderr.startswith("error: ")
    assert stderr.count("\n") == 1
    assert expected in stderr


def test_without_arguments_the_help_is_shown_without_an_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, printed, stderr = run(capsys)

    assert code == 0
    assert "Usage: rookery" in printed
    assert stderr == ""


def test_the_installed_version_is_printed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(capsys, "--version") == (0, f"rookery {version('rookery')}\n", "")


@pytest.mark.parametrize("command", ["evaluate", "replay"])
def test_a_run_without_weights_is_refused(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(capsys, "replay", "treasurehunt", "game.turns=2", "--run", f"{tmp_path}/x")

    code, _, stderr = run(capsys, command, f"{tmp_path}/x")

    assert code == 2
    assert stderr == (
        f"error: {tmp_path}/x has no weights yet: train it for some rounds.\n"
    )


@pytest.mark.parametrize("command", ["evaluate", "replay"])
def test_an_option_that_a_run_would_ignore_is_refused(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.toml").touch()

    code, _, stderr = run(capsys, command, str(tmp_path), "--config", "x.toml")

    assert code == 2
    assert "--config cannot be used with a run" in stderr


def test_all_errors_are_reported_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("evaluate", "treasurehunt", "worlds=0", "game.gm=1", "seed=-1")

    _, _, stderr = run(capsys, *arguments)

    assert stderr.startswith("error: 3 problems: ")


def test_unreadable_toml_names_file_and_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.toml").write_text("seed = 1\nworlds = = 2\n")

    code, _, stderr = run(capsys, "evaluate", "treasurehunt", "--config", "bad.toml")

    assert code == 2
    assert "bad.toml" in stderr
    assert "line 2" in stderr


def test_a_file_cannot_name_code_that_is_then_imported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "evil.py").write_text("raise SystemExit('imported')")
    (tmp_path / "run.toml").write_text('[game]\nname = "./evil.py:Game"\n')

    code, _, stderr = run(capsys, "evaluate", "--config", "run.toml")

    assert code == 2
    assert "If you trust this code, name it on the command line" in stderr


def test_json_is_the_only_thing_on_standard_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = ("evaluate", "treasurehunt", "evaluate.episodes=4", "--json")

    code, printed, _ = run(capsys, *arguments)

    result = json.loads(printed)
    assert code == 0
    assert result["episodes"] == 4
    assert set(result["players"]) == {"random", "forager"}
    assert set(result["players"]["forager"]) == {"mean", "std", "agents"}
    assert set(result["players"]["forager"]["agents"]) == {"0", "1", "2"}


def test_the_configuration_of_a_run_fed_back_gives_the_same_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("replay", "treasurehunt", "seed=5", "game.agents=2", "game.turns=9")
    options = ("--players", "forager,random", "--run", "first", "--json")

    _, first, _ = run(capsys, *arguments, *options)
    _, second, _ = run(
        capsys, "replay", "--config", "first/config.toml", "--run", "second", "--json"
    )

    assert json.loads(first)["agents"] == json.loads(second)["agents"]
    config = tmp_path / "first" / "config.toml"
    assert config.read_text() == (tmp_path / "second" / "config.toml").read_text()


def test_replay_leaves_a_gif_a_recording_and_the_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed, _ = run(capsys, "replay", "treasurehunt", "game.turns=5", "--run", "r")

    assert code == 0
    assert "r/replays/episode-0.gif" in printed
    files = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    assert files == {
        "r/config.toml",
        "r/replays/episode-0.gif",
        "r/recordings/episode-0.safetensors",
    }


def test_evaluate_creates_no_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, stderr = run(capsys, "evaluate", "treasurehunt", "--run", "x")

    assert code == 2
    assert stderr == (
        "error: no such option: --run: evaluate does not create a folder; to keep its "
        "result, use --json > FILE.\n"
    )
    assert not (tmp_path / "x").exists()


def test_a_folder_that_replay_created_is_not_listed_as_a_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(capsys, "replay", "treasurehunt", "game.turns=2", "--run", "runs/watched")

    code, printed, _ = run(capsys, "runs", "--json")

    assert code == 0
    assert json.loads(printed)["runs"] == []


def test_flags_have_no_type_in_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    _, printed, _ = run(capsys, "evaluate", "--help")

    (line,) = [line for line in printed.splitlines() if "--json" in line]
    assert "bool" not in line.lower()


def test_a_run_folder_that_exists_is_not_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").mkdir()

    arguments = ("replay", "treasurehunt", "game.turns=2", "--run", "mine")
    code, _, stderr = run(capsys, *arguments)

    assert code == 2
    assert "mine exists already: choose another folder with --run" in stderr
    assert list((tmp_path / "mine").iterdir()) == []


def test_check_fails_and_names_the_broken_promise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "leaky.py").write_text(
        "from rookery.games import gridworld as grid\n"
        "class Leaky(grid.GridGame):\n"
        "    map = '###\\n#P#\\n#.#\\n###'\n"
        "    def declare(self):\n"
        "        self.wall = grid.Kind(solid=True, layer='walls', char='#')\n"
        "        self.one = grid.Body(grid.MOVES, sees={'view': grid.Window(1)})\n"
        "    def act(self, world, me):\n"
        "        if me.does('up').any():\n"
        "            me.reward += 1\n"
    )

    code, printed, _ = run(capsys, "check", "./leaky.py:Leaky", "game.agents=1")

    assert code == 1
    assert "✗ A world plays the same on its own as among others." in printed
    assert "rewards in world" in printed


def test_games_describe_and_bench_list_names(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert "treasurehunt" in run(capsys, "games")[1]
    assert "game.spawn" in run(capsys, "describe", "treasurehunt")[1]
    assert "benchmarks: collect, game, peers, speedup, update" in run(capsys, "bench")[1]


def test_a_traceback_is_shown_only_with_debug(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "rookery", "evaluate", "nogame"]

    plain = subprocess.run(command, capture_output=True, text=True, timeout=60)
    debug = subprocess.run(
        [*command, "--debug"], capture_output=True, text=True, timeout=60
    )

    assert "Traceback" not in plain.stderr
    assert "Traceback" in debug.stderr


def test_a_setting_that_is_refused_leaves_no_folder_behind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    arguments = ["train", "treasurehunt", "agents.0.from=none.safetensors"]

    code, _, stderr = run(capsys, *arguments, "--run", str(folder))

    assert code == 2
    assert "there is no file" in stderr
    assert not folder.exists()


def test_resuming_a_finished_run_says_that_nothing_is_left_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    small = ["rounds=1", "turns_per_round=10", "worlds=2", "game.turns=5", "workers=0"]
    run(capsys, "train", "treasurehunt", *small, "--run", str(folder))

    code, _, stderr = run(capsys, "resume", str(folder))

    assert code == 0
    assert "has finished all its 1 rounds: nothing left to do. To train longer: " in stderr
    assert f"rookery resume {folder} rounds=2" in " ".join(stderr.split())


def test_a_finished_run_is_trained_longer_and_says_what_was_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "run"
    small = ["rounds=1", "turns_per_round=10", "worlds=2", "game.turns=5", "workers=0"]
    run(capsys, "train", "treasurehunt", *small, "--run", str(folder))

    code, out, stderr = run(capsys, "resume", str(folder), "rounds=3", "--json")

    assert code == 0
    assert "changed: rounds 1 → 3, rate.rounds unset → 1. The learning rate falls" in stderr
    assert (json.loads(out)["rounds"], json.loads(out)["turns"]) == (3, 30)
    code, _, stderr = run(capsys, "resume", str(folder), "n_step=1")
    assert code == 2
    message = " ".join(stderr.split())
    assert "n_step cannot be changed when a run is resumed, only rounds, " in message
    assert 'rookery train treasurehunt n_step=1 \'agents."*".from=' in message


def test_two_games_are_refused_and_one_named_as_a_setting_is_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = ["rounds=1", "turns_per_round=2", "worlds=1", "workers=0"]
    code, _, stderr = run(capsys, "train", "treasurehunt", "game.name=harvest", *small)
    assert code == 2
    assert "two games are named, 'treasurehunt' and game.name='harvest': name" in stderr

    folder = tmp_path / "run"
    arguments = ["game.name=iterated_chicken", *small, "--run", str(folder)]
    code, _, _ = run(capsys, "train", *arguments)

    assert code == 0
    assert 'name = "iterated_chicken"' in (folder / "config.toml").read_text()


def test_markup_in_names_is_printed_as_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    game = f"pettingzoo:{GAME_FILES / 'brackets.py'}:Two"

    code, printed, _ = run(capsys, "evaluate", game, "evaluate.episodes=1")

    assert code == 0
    assert "[/x]" in printed
    assert "[red]:smile:" in run(capsys, "describe", game)[1]


def test_a_line_break_in_a_name_does_not_break_the_line_of_the_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, _, stderr = run(capsys, "evaluate", "treasure\nhunt")

    assert code == 2
    assert stderr.count("\n") == 1
    assert "'treasure hunt'" in stderr


def rookery(shell: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a shell command in which `$R` is `rookery`."""
    variables = {"R": f"{sys.executable} -m rookery", **environment}
    line = ["sh", "-c", shell]
    return subprocess.run(line, capture_output=True, text=True, env=os.environ | variables)


@pytest.mark.processes
def test_a_result_that_cannot_be_written_is_one_line_and_code_1() -> None:
    ended = rookery("$R games --json > /dev/full")

    stderr = "error: cannot write to standard output (No space left on device).\n"
    assert (ended.returncode, ended.stderr) == (1, stderr)


@pytest.mark.processes
def test_a_reader_that_closes_the_pipe_is_not_an_error() -> None:
    ended = rookery("($R games; echo $? >&2) | true")

    assert ended.stderr == "0\n"


@pytest.mark.processes
def test_characters_that_an_encoding_lacks_are_escaped() -> None:
    ended = rookery("$R check iterated_chicken", PYTHONIOENCODING="ascii")

    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("\\u2713 ")
