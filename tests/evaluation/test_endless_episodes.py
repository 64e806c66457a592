"""Games whose episodes never end: matches cut them off, and warn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rookery
from rookery.cli import app as cli
from rookery.config.resolve import resolve
from rookery.evaluation import play as play_module
from rookery.evaluation.play import MOST_TURNS, most_turns
from rookery.games.registry import find
from rookery.runs.configure import configure
from rookery.runs.session import Session

ENDLESS = """
import numpy as np
from pydantic import Field
from rookery.config.base import Settings
from rookery.games.base import Game, Observations, Outcome
from rookery.specs import AgentSpec, Part

PART = Part((1,), np.dtype(np.float32))

class Endless(Game):
    class Settings(Settings):
        endless: int = Field(99, description="Worlds that never end; others do at once.")

    def __init__(self, settings, worlds, seed, first_world=0):
        super().__init__(settings, worlds, seed)
        self.agents = (AgentSpec("0", "one", {"here": PART}, ("stay", "go")),)
        self.ending = np.arange(worlds) >= settings.endless
        self.ended = np.zeros(worlds, bool)

    def begin_turn(self):
        return ((0,),)

    def observe(self, agents):
        parts = {"here": np.zeros((self.worlds, 1), np.float32)}
        return Observations([parts], [~self.ended], [None])

    def act(self, agents, actions):
        pass

    def end_turn(self):
        rewards = np.where(self.ended, 0.0, 1.0)[:, None]
        self.ended = ~self.ended & self.ending
        return Outcome(rewards, self.ended[:, None], np.zeros_like(self.ended[:, None]))
"""
SMALL: dict[str, Any] = {
    "rounds": 2,
    "workers": 0,
    "worlds": 2,
    "turns_per_round": 8,
    "updates_per_round": 1,
    "batch_size": 8,
    "network": {"width": 16},
    "replay": {"capacity": 60, "warmup": 8},
}
LINE = (
    "had not ended after 30 turns and were cut off; the returns so far count. Make the "
    "game end its episodes, or set evaluate.turns to another limit."
)


@pytest.fixture
def endless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("endless.py").write_text(ENDLESS)
    return "./endless.py:Endless"


def run_command(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[str, str]:
    with pytest.raises(SystemExit) as left:
        cli.main(list(command))
    assert not left.value.code
    printed = capsys.readouterr()
    return printed.out, " ".join(printed.err.split())


def test_endless_episodes_are_cut_off_and_count_with_their_returns_so_far(
    endless: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["worlds=2", "evaluate.episodes=6", "evaluate.turns=30", "--json"]

    printed, warned = run_command(capsys, "evaluate", endless, *options)

    result = json.loads(printed)
    assert result["episodes"] == 2  # a world whose episode never ends starts no other
    assert result["players"]["random"] == {
        "mean": 30.0,
        "std": 0.0,
        "agents": {"0": 30.0},
        "cut": 2,
    }
    assert warned == f"warning: 2 episodes {LINE}"


def test_worlds_whose_episodes_end_play_their_whole_quota(
    endless: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["worlds=2", "evaluate.episodes=6", "evaluate.turns=30", "--json"]

    printed, _ = run_command(capsys, "evaluate", endless, "game.endless=1", *options)

    result = json.loads(printed)
    assert result["episodes"] == 1 + 3
    assert result["players"]["random"]["cut"] == 1


@pytest.mark.parametrize("workers", [0, pytest.param(1, marks=pytest.mark.processes)])
def test_a_run_warns_once_that_episodes_were_cut_off_and_records_how_many(
    endless: str, workers: int
) -> None:
    Path("counting.py").write_text(
        "def ask(players, game):\n    return {'x': game.play(players, episodes=2).cut}\n"
    )
    settings = SMALL | {
        "workers": workers,
        "evaluate": {"every_rounds": 1, "turns": 30},
        "record": {"every_rounds": 1},
        "probe": {"code": "./counting.py:ask", "every_rounds": 2},
    }
    entry, config = configure(endless, settings=settings)
    Path("run").mkdir()
    session, messages = Session(entry, config, Path("run")), []
    session.say = messages.append

    session.run(lambda completed: None)

    assert messages[1:] == [f"warning: 2 episodes {LINE}"]  # the first is about epsilon
    lines = [json.loads(x) for x in Path("run/evaluations.jsonl").read_text().splitlines()]
    assert [line["cut"] for line in lines] == [2] * 4
    recording = rookery.Recording.load("run/recordings/round-2.safetensors")
    assert recording.turns == 30
    assert not recording.arrays["terminated"].any()
    assert rookery.Run("run", endless).probes()["x"].tolist() == [2, 2]


def test_the_library_warns(endless: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(play_module, "MOST_TURNS", 2_000)

    with pytest.warns(UserWarning, match="1 episode had not ended after 2,000 turns and"):
        match = rookery.play(endless, episodes=1)

    assert match.cut == 1
    assert match.returns.tolist() == [[2_000]]


def test_nothing_is_reported_if_all_episodes_end() -> None:
    match = rookery.play("treasurehunt", episodes=3, game={"turns": 5})

    assert match.cut == 0
    assert "cut" not in match.summary()


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({}, MOST_TURNS),
        ({"game": {"turns": 500_000}}, 500_000),
        ({"game": {"turns": 500_000}, "evaluate": {"turns": 7}}, 7),
    ],
    ids=["by default", "a long game", "as the user says"],
)
def test_a_game_with_a_limit_is_not_cut_off_before_it(
    settings: dict[str, Any], most: int
) -> None:
    settings = {**settings, "game": {**settings.get("game", {}), "name": "treasurehunt"}}

    assert most_turns(resolve(settings, find("treasurehunt").settings)) == most
