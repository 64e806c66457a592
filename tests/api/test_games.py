"""`games`, `describe`, `check` and `digest` from Python, and what they show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import rookery
from rookery.errors import ConfigError
from rookery.games.conformance.checks import Finding
from rookery.runs.configure import configure
from tests.small import train


def test_games_are_listed_by_name() -> None:
    games = rookery.list_games()

    assert repr(games).startswith(
        "<Games: cleanup, climbing, gambling, gathering, harvest, "
    )
    assert games["harvest"].players
    assert "forager" in str(games)
    assert games._repr_html_().startswith("<pre")


def test_a_description_shows_itself() -> None:
    description = rookery.describe("treasurehunt", game={"agents": 4})

    assert len(description.agents) == 4
    assert description.to_json()["players"] == ["random", "forager"]
    assert repr(description).startswith("<Description treasurehunt: ")
    assert repr(description).endswith(" 4 agents, players random, forager>")
    assert "game.agents" in str(description)
    assert "#####" in str(description)  # the map


def test_a_check_gives_findings_one_by_one_and_all_together() -> None:
    seen: list[Finding] = []

    result = rookery.check("iterated_chicken", callback=seen.append, **{"game.turns": 5})

    assert seen == result.findings
    assert result.passed
    assert repr(result).startswith("<Check iterated_chicken: ")
    assert str(result).startswith("✓ The game can be built.")


def test_dotted_names_and_wrong_settings_are_as_in_train() -> None:
    assert len(rookery.describe("harvest", **{"game.agents": 2}).agents) == 2
    with pytest.raises(ConfigError, match=r"game\.agents must be a whole number"):
        rookery.check("harvest", game={"agents": "many"})


def test_the_health_of_a_run_shows_itself(tmp_path: Path) -> None:
    run = train(tmp_path / "run")

    status = rookery.health(run)

    assert status.round == 4
    assert repr(status) == "<Status: round 4; main ended>"
    assert "last update: round 4, 0 s ago" in str(status)
    with pytest.raises(ConfigError, match="is not a run: no such folder"):
        rookery.health(tmp_path / "nowhere")


def test_results_show_themselves_in_a_line() -> None:
    gains = [np.array([0.0, 3.0]), np.array([1.0, 4.0])]
    schelling = rookery.Schelling("hunt", "a", "b", *gains, *[np.zeros(2)] * 2, episodes=3)
    crossplay = rookery.Crossplay([], "hunt", 50, [])
    _, config = configure("harvest", settings={"rounds": 7})

    assert (
        repr(schelling)
        == "<Schelling hunt: a and b, 2 agents, a dilemma of greed and fear>"
    )
    assert repr(crossplay) == "<Crossplay hunt: ; 50 episodes per pairing>"
    assert (
        repr(config) == "<Config harvest: algorithm=iqn, rounds=7, seed=0, workers=auto, …>"
    )
