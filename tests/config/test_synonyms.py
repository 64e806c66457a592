"""Names from other libraries are answered with Rookery's names."""

from __future__ import annotations

import pytest

from rookery.config.resolve import describe_settings, resolve
from rookery.config.run import Config
from rookery.config.synonyms import SYNONYMS
from rookery.errors import ConfigError
from rookery.games.gridworld import GridSettings

KNOWN = {row.key for row in describe_settings(Config)}
KNOWN |= {row.key for row in describe_settings(GridSettings, "game")}


def answer_to(**settings: object) -> str:
    with pytest.raises(ConfigError) as caught:
        resolve({"game": {"name": "x"}, **settings}, GridSettings)
    return str(caught.value)


def test_every_synonym_leads_to_settings_that_exist() -> None:
    for name, synonym in SYNONYMS.items():
        assert set(synonym.settings) <= KNOWN, name
        assert synonym.settings or synonym.note, name


def test_no_synonym_is_a_setting_itself() -> None:
    assert not SYNONYMS.keys() & KNOWN
    assert all(name == name.lower() for name in SYNONYMS)


@pytest.mark.parametrize(
    ("name", "answer"),
    [
        ("players", "agents.ID.player=NAME names the scripted player of an agent"),
        ("gamma", "here it is called 'discount'"),
        ("Gamma", "here it is called 'discount'"),
        ("lr", "here it is called 'learning_rate'"),
        ("n_envs", "here it is called 'worlds'"),
        ("buffer-size", "here it is called 'replay.capacity'"),
        (
            "total_timesteps",
            "called 'rounds' (a run has rounds × turns_per_round × worlds world-turns)",
        ),
        ("n_steps", "'n_step' or 'turns_per_round' (n_step is for n-step returns, turns"),
        ("tau", "here it is called 'target.rate'"),
        ("n_agents", "here it is called 'game.agents'"),
        ("device", "Rookery computes on the CPU only: leave it out"),
    ],
)
def test_a_name_from_elsewhere_is_answered_with_ours(name: str, answer: str) -> None:
    message = answer_to(**{name: 1})

    assert message.startswith(f"unknown setting '{name}': ")
    assert answer in message


@pytest.mark.parametrize(
    ("tree", "answer"),
    [
        ({"dqn": {"gamma": 1}}, "'dqn.gamma': here it is called 'discount'"),
        ({"game": {"name": "x", "lr": 1}}, "'game.lr': here it is called 'learning_rate'"),
        (
            {"agents": {"0": {"gamma": 1}}},
            "'agents.0.gamma': here it is called 'agents.0.discount'",
        ),
        ({"agents": {"0": {"n_envs": 1}}}, "'agents.0.n_envs': here it is called 'worlds'"),
    ],
)
def test_a_name_from_elsewhere_is_answered_wherever_it_is(
    tree: dict[str, object], answer: str
) -> None:
    assert answer in answer_to(**tree)


def test_upper_and_lower_case_count_as_equal() -> None:
    message = answer_to(LEARNING_RATE=1, Discount=1)

    assert "unknown setting 'LEARNING_RATE': did you mean 'learning_rate'?" in message
    assert "unknown setting 'Discount': did you mean 'discount'?" in message


def test_a_list_that_is_cut_says_where_all_are_listed() -> None:
    assert "max_lag, … (`rookery settings` lists all)." in answer_to(qqq=1)
