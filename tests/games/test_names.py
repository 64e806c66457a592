"""Names of foreign games: short forms work, and wrong ones are answered."""

from __future__ import annotations

import sys

import pytest

from rookery.errors import ConfigError
from rookery.games.names import complete_name, zoo_games
from rookery.games.registry import find


def refusal(name: str) -> str:
    with pytest.raises(ConfigError) as caught:
        find(name)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("path", ["rps_v2", "classic.rps_v2", "pettingzoo.classic.rps_v2"])
def test_a_pettingzoo_game_can_be_named_by_its_last_names(path: str) -> None:
    assert complete_name("pettingzoo", path) == "pettingzoo.classic.rps_v2"


def test_a_function_stays_with_the_completed_module() -> None:
    completed = complete_name("pettingzoo", "rps_v2:env")

    assert completed == "pettingzoo.classic.rps_v2:env"


def test_files_and_modules_of_the_user_are_left_as_they_are() -> None:
    for path in ("./mine.py:env", "mpe2.simple_spread_v3", "json:loads", ""):
        assert complete_name("pettingzoo", path) == path


def test_a_game_with_a_short_name_is_the_same_game() -> None:
    short, full = find("pettingzoo:rps_v2"), find("pettingzoo:pettingzoo.classic.rps_v2")

    assert short.summary == full.summary


def test_all_games_are_modules_with_a_version() -> None:
    games = list(zoo_games())

    assert {"pettingzoo.classic.rps_v2", "mpe2.simple_spread_v3"} <= set(games)
    assert "pettingzoo.classic.rps" not in games


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("pettingzoo:rps_v3", "did you mean 'pettingzoo.classic.rps_v2'?"),
        ("pettingzoo:classik.rps_v2", "did you mean 'pettingzoo.classic.rps_v2'?"),
        (
            "pettingzoo:pettingzoo.sisl.waterworld_v4",
            "known are pettingzoo.sisl.multiwalker_v9, pettingzoo.sisl.pursuit_v5.",
        ),
        ("meltingpot:clean_up", "Melting Pot (pip install dm-meltingpot) is not supported"),
        ("pettingzooo:rps_v2", "did you mean 'pettingzoo'?"),
    ],
)
def test_a_wrong_name_is_answered_with_a_real_one(name: str, answer: str) -> None:
    assert answer in refusal(name)


@pytest.mark.parametrize(
    ("name", "module", "package"),
    [
        ("gymnasium:ALE/Pong-v5", "ale_py", "ale-py"),
        ("gymnasium:MiniGrid-Empty-5x5-v0", "minigrid", "minigrid"),
    ],
)
def test_an_id_that_a_package_registers_names_the_package(
    name: str, module: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # as if it were not installed

    answer = refusal(name)

    assert answer == f"The module '{module}' is not installed: pip install {package}."
