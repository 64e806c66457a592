"""Finding one's way: settings, runs, differences, help, and completion."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rookery.cli import app as cli
from tests.paths import ROOT

BEGAN = ROOT / "tests" / "fixtures" / "began"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as leaving:
        cli.main(list(arguments))
    printed = capsys.readouterr()
    return int(leaving.value.code or 0), printed.out, printed.err


def test_all_settings_are_printed_by_section(capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = run(capsys, "settings")

    assert code == 0
    for name in ("learning_rate", "replay.capacity", "agents.<id>.player", "ppo.clip"):
        assert name in printed
    assert "rookery settings GAME" in printed


def test_the_settings_of_a_section_are_one_json_object(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, printed, _ = run(capsys, "settings", "target", "--json")

    (section,) = json.loads(printed)["sections"]
    assert section["name"] == "target"
    assert section["settings"][1] == {
        "key": "target.rate",
        "type": "number, above 0, at most 1",
        "default": "0.01",
        "description": "Soft-update rate τ; 1 copies the network.",
    }


def test_the_help_of_train_says_where_settings_are_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    _, printed, _ = run(capsys, "train", "--help")

    assert "rookery settings" in " ".join(printed.replace("│", " ").split())


@pytest.mark.parametrize("arguments", [["-h"], ["train", "-h"], ["settings", "-h"]])
def test_h_is_help(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    code, printed, _ = run(capsys, *arguments)

    assert code == 0
    assert "Usage: rookery" in printed


def test_the_help_shows_debug(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--debug" in run(capsys, "--help")[1]


@pytest.mark.parametrize(
    ("arguments", "answer"),
    [
        (["--rounds", "10"], "settings are written without dashes: rounds=10"),
        (["--rounds=10"], "settings are written without dashes: rounds=10"),
        (["--learning-rate", "1"], "written without dashes: learning_rate=1"),
        (["--replay.capacity", "9"], "written without dashes: replay.capacity=9"),
        (["--game.agents"], "written without dashes: game.agents=VALUE"),
        (["--lr", "1"], "here it is called 'learning_rate'; write settings as NAME=VALUE."),
        (["--runn", "x"], "No such option: --runn"),
        (["algorithm=DQN"], "unknown algorithm 'DQN': did you mean 'dqn'?"),
    ],
)
def test_a_setting_written_as_an_option_is_answered_with_how_to_write_it(
    arguments: list[str], answer: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = ["--run", str(tmp_path / "run")]

    code, _, stderr = run(capsys, "train", "treasurehunt", *arguments, *folder)

    assert code == 2
    assert stderr.count("\n") == 1
    assert answer in stderr


def test_runs_are_listed_below_their_folder_of_seeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (0, 1):
        shutil.copytree(BEGAN, tmp_path / "seeds" / f"seed-{seed}")

    code, printed, _ = run(capsys, "runs", str(tmp_path))

    assert code == 0
    header, group, first, second = printed.splitlines()
    assert header.split() == [
        *("run", "game", "algorithm", "seed"),
        *("state", "round", "score", "updated"),
    ]
    assert "2 seeds" in group
    assert "2 killed" in group
    assert first.split()[:6] == ["seed-0", "treasurehunt", "iqn+ppo", "5", "killed", "8/16"]
    assert second.split()[0] == "seed-1"


def test_runs_are_one_json_object(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(BEGAN, tmp_path / "run")

    _, printed, _ = run(capsys, "runs", str(tmp_path), "--json")

    (info,) = json.loads(printed)["runs"]
    assert (info["path"], info["state"], info["round"]) == (f"{tmp_path}/run", "killed", 8)


def test_a_folder_without_runs_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, printed, _ = run(capsys, "runs", str(tmp_path))

    assert (code, printed) == (0, f"There is no run in {tmp_path}.\n")


def test_the_settings_that_differ_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(BEGAN, tmp_path / "b")
    config = tmp_path / "b" / "config.toml"
    config.write_text(config.read_text().replace("seed = 5", "seed = 6"))

    _, printed, _ = run(capsys, "diff", str(BEGAN), str(tmp_path / "b"))
    _, as_json, _ = run(capsys, "diff", str(BEGAN), str(tmp_path / "b"), "--json")
    _, equal, _ = run(capsys, "diff", str(BEGAN), str(BEGAN))

    assert [line.split() for line in printed.splitlines()][-1] == ["seed", "5", "6"]
    assert json.loads(as_json)["settings"] == {"seed": [5, 6]}
    assert "have equal settings" in equal


def test_health_of_a_folder_of_seeds_is_shown_seed_by_seed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for seed in (0, 1):
        shutil.copytree(BEGAN, tmp_path / f"seed-{seed}")

    _, printed, _ = run(capsys, "health", str(tmp_path))
    _, as_json, _ = run(capsys, "health", str(tmp_path), "--json")

    assert [line for line in printed.splitlines() if line.startswith("seed-")] == [
        "seed-0",
        "seed-1",
    ]
    assert printed.count("last update: round 8") == 2
    assert json.loads(as_json)["seeds"]["seed-1"]["round"] == 8


@pytest.mark.parametrize("command", [["digest"], ["record"]])
def test_commands_for_one_run_name_a_seed_of_a_folder_of_seeds(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(BEGAN, tmp_path / "seed-4")
    file = [str(tmp_path / "x.parquet")] if command == ["record"] else []

    code, _, stderr = run(capsys, *command, str(tmp_path), *file)

    assert code == 2
    assert f"name one of them, such as {tmp_path}/seed-4" in stderr


COMPLETED = {
    "commands": ("rookery diges", ["digest"]),
    "games": ("rookery train treasu", ["treasurehunt"]),
    "settings": ("rookery train harvest target.", ["target.every=", "target.rate="]),
    "settings of the game": ("rookery train harvest game.vis", ["game.vision="]),
    "runs": ("rookery resume began", ["began"]),
    "games and runs": ("rookery evaluate be", ["began"]),
    "sections": ("rookery settings recu", ["recurrent"]),
}


@pytest.mark.parametrize(("line", "words"), COMPLETED.values(), ids=COMPLETED.keys())
def test_a_shell_can_complete(line: str, words: list[str]) -> None:
    environment = os.environ | {
        "_ROOKERY_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(line.split()) - 1),
    }
    code = (
        "import sys, atexit\n"
        "atexit.register(lambda: sys.stderr.write(str('torch' in sys.modules)))\n"
        "from rookery.cli.app import main; main()\n"
    )

    ended = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=BEGAN.parent,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert ended.stdout.split() == words
    assert ended.stderr == "False"


def test_settings_and_runs_are_quick(capsys: pytest.CaptureFixture[str]) -> None:
    begun = time.process_time()

    run(capsys, "settings", "dqn")
    run(capsys, "runs", str(BEGAN.parent))

    assert time.process_time() - begun < 2


def test_thousands_of_actions_are_not_all_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "talk.py").write_text(
        "from rookery.games import gridworld as grid\n"
        "class Talk(grid.GridGame):\n"
        "    map = '#####\\n#P.P#\\n#.P.#\\n#####'\n"
        "    def declare(self):\n"
        "        self.wall = grid.Kind(solid=True, layer='walls', char='#')\n"
        "        words = tuple(f'say {i}' for i in range(1000))\n"
        "        sees = {'view': grid.Window(radius=1)}\n"
        "        self.talker = grid.Body(actions=(grid.MOVES, words), sees=sees)\n"
    )

    code, printed, _ = run(capsys, "describe", f"{tmp_path}/talk.py:Talk")

    assert code == 0
    words = " ".join(printed.split())
    assert "up+say 0" in words
    assert "(4,000 actions)" in words
    assert "say 500" not in words
