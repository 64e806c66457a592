"""Schelling diagrams: how they are measured, printed and drawn, and those of our games."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache

import matplotlib
import numpy as np
import pytest

import rookery
from rookery.errors import ConfigError

QUICK = {"episodes": 16, "worlds": 16}


@cache
def diagram(game: str, cooperator: str, defector: str) -> rookery.Schelling:
    return rookery.schelling(game, cooperator, defector, **QUICK)


@pytest.fixture
def prisoners() -> rookery.Schelling:
    return rookery.schelling(
        "iterated_prisoners_dilemma",
        "cooperator",
        "defector",
        episodes=2,
        game={"turns": 10},
    )


def test_entries_are_by_the_number_of_others_that_cooperate(prisoners):
    entry = rookery.play(
        "iterated_prisoners_dilemma", ["cooperator", "defector"], game={"turns": 10}
    )
    fooled, traitor = entry.returns[0]

    assert prisoners.cooperating[0] == fooled
    assert prisoners.defecting[1] == traitor
    assert prisoners.cooperating.shape == prisoners.defecting.shape == (2,)


def test_the_prisoners_dilemma_is_one_of_greed_and_fear(prisoners):
    assert prisoners.is_dilemma
    assert prisoners.greed
    assert prisoners.fear
    assert (prisoners.gain > 0).all()


@pytest.mark.parametrize(
    ("cooperating", "defecting", "dilemma"),
    [
        ([0, 3], [1, 4], True),
        ([2, 3], [1, 4], True),
        ([0, 3], [1, 2], True),
        ([2, 3], [1, 2], False),
        ([0, 1], [1, 4], False),
        ([3, 3], [1, 4], False),
    ],
    ids=[
        "prisoners",
        "chicken",
        "stag hunt",
        "harmony",
        "no gain together",
        "a lone cooperator does well",
    ],
)
def test_a_dilemma_needs_a_common_good_and_a_temptation(
    prisoners, cooperating, defecting, dilemma
):
    result = replace(
        prisoners, cooperating=np.array(cooperating), defecting=np.array(defecting)
    )

    assert result.is_dilemma is dilemma


def test_diagram_prints_as_a_table(prisoners):
    lines = str(prisoners).splitlines()

    assert lines[0].split() == ["others", "cooperator", "defector"]
    assert [line.split()[0] for line in lines[1:-1]] == ["0", "1"]
    assert lines[-1] == "others that cooperate; mean return ± its standard error"


def test_diagram_is_drawn_into_a_file(prisoners, tmp_path):
    prisoners.draw(tmp_path / "diagram.png")

    assert (tmp_path / "diagram.png").read_bytes().startswith(b"\x89PNG")


def test_the_figure_says_what_its_bars_are(prisoners, tmp_path):
    with matplotlib.rc_context({"svg.fonttype": "none"}):
        prisoners.draw(tmp_path / "diagram.svg")

    text = (tmp_path / "diagram.svg").read_text()
    assert f"bars: ± 2 standard errors, {prisoners.episodes} episodes" in text


def test_drawing_without_matplotlib_says_what_to_install(prisoners, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)

    with pytest.raises(ConfigError, match=r"need matplotlib: pip install 'rookery\[ana"):
        prisoners.draw(tmp_path / "diagram.png")


def test_the_same_seed_gives_the_same_diagram():
    first, second = (
        rookery.schelling(
            "harvest", "sharer", "eater", episodes=4, seed=3, game={"turns": 20}
        )
        for _ in range(2)
    )

    assert np.array_equal(first.cooperating, second.cooperating)
    assert np.array_equal(first.defecting, second.defecting)


@pytest.mark.shows("H3")
def test_cleanup_is_a_dilemma_of_greed():
    result = diagram("cleanup", "cleaner", "eater")

    assert result.is_dilemma
    assert (result.gain[1:] > 5).all()  # if another agent cleans, it pays not to
    assert result.cooperating[-1] > 4 * result.defecting[0]


def test_in_cleanup_all_agents_gain_from_every_additional_cleaner():
    result = diagram("cleanup", "cleaner", "eater")

    assert (np.diff(result.cooperating) > 0).all()
    assert (np.diff(result.defecting) > 0).all()


@pytest.mark.shows("H3")
def test_harvest_is_a_dilemma_of_greed_and_fear():
    result = diagram("harvest", "sharer", "eater")

    assert result.is_dilemma
    assert (result.gain > 2).all()  # whatever others do, it pays to pick all apples
    assert result.cooperating[-1] > result.defecting[0] + 5


@pytest.mark.shows("H3")
@pytest.mark.parametrize("agents", [2, 4])
def test_staghunt_is_a_dilemma_of_fear_only(agents):
    result = rookery.schelling(
        "staghunt", "stag_hunter", "hare_hunter", game={"agents": agents}, **QUICK
    )

    assert result.is_dilemma
    assert result.fear
    assert (result.gain[1:] < 0).all()  # with one partner it pays to hunt the stag


def test_a_lone_stag_hunter_gets_less_the_higher_the_risk():
    diagrams = [
        rookery.schelling(
            "staghunt",
            "stag_hunter",
            "hare_hunter",
            episodes=8,
            game={"turns": 50, "risk": risk},
        )
        for risk in (0.0, 0.5, 2.0)
    ]

    lone = [result.cooperating[0] for result in diagrams]
    assert lone == sorted(lone, reverse=True)
    assert lone[0] >= 0 > lone[1]
