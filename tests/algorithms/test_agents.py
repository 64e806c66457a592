"""Agents from settings: what each does, how they are grouped, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from rookery.algorithms.agents import build_agents, check_agents
from rookery.algorithms.grouping import groups_of, stack_key
from rookery.algorithms.iqn import IQN
from rookery.algorithms.ppo import PPO
from rookery.config.base import Settings
from rookery.config.resolve import resolve
from rookery.errors import ConfigError
from rookery.games.registry import find
from rookery.specs import AgentSpec, Part
from rookery.training.training import Training

SMALL_VIEW = {"view": Part((2, 2), np.dtype(np.uint8))}
LARGE_VIEW = {"view": Part((3, 3), np.dtype(np.uint8))}
IDS = ("hunter_a", "hunter_b", "gatherer")


def specs_of(*ids, parts=SMALL_VIEW, actions=("left", "right"), masked=False):
    return [AgentSpec(agent, "any", parts, actions, masked) for agent in ids]


def agents_of(specs=None, **settings):
    """Return the agents of a run with these settings."""
    config = resolve({"game": {"name": "any"}} | settings, Settings)
    return build_agents(config, specs or specs_of(*IDS))


def ids_of(groups):
    return [[agent.id for agent in group] for group in groups]


# Settings.


def test_agents_learn_by_iqn_by_default():
    agents = agents_of()

    assert [agent.id for agent in agents] == list(IDS)
    assert [agent.number for agent in agents] == [0, 1, 2]
    assert all(agent.algorithm is IQN and agent.learns for agent in agents)
    assert all(agent.player is None for agent in agents)


def test_each_agent_has_its_own_algorithm_and_settings():
    agents = agents_of(
        learning_rate=1e-4,
        agents={"hunter_b": {"algorithm": "ppo"}, "gatherer": {"learning_rate": 1e-2}},
    )

    assert [agent.algorithm for agent in agents] == [IQN, PPO, IQN]
    rates = [agent.settings.learning_rate for agent in agents]
    assert rates == [1e-4, 1e-4, 1e-2]


def test_a_pattern_sets_several_agents():
    agents = agents_of(agents={"hunter*": {"network": {"width": 32}}})

    widths = [agent.settings.network.width for agent in agents]
    assert widths == [32, 32, agents[2].settings.network.width]
    assert widths[2] != 32


def test_an_exact_id_overrides_patterns():
    agents = agents_of(
        agents={
            "hunter_a": {"discount": 0.1},
            "hunter*": {"discount": 0.2, "batch_size": 7},
            "*": {"discount": 0.3},
        }
    )

    assert [agent.settings.discount for agent in agents] == [0.1, 0.3, 0.3]
    assert [agent.settings.batch_size for agent in agents[:2]] == [7, 7]


def test_a_scripted_agent_has_a_player_and_no_algorithm():
    agents = agents_of(agents={"gatherer": {"player": "random"}})

    assert agents[2].player == "random"
    assert agents[2].algorithm is None
    assert not agents[2].learns


def test_a_frozen_agent_has_an_algorithm_and_does_not_learn():
    agents = agents_of(agents={"hunter_a": {"learning": False}})

    assert agents[0].algorithm is IQN
    assert not agents[0].learns
    assert agents[0].player is None


@pytest.mark.parametrize("key", ["hunter_c", "wolf*"])
def test_settings_that_fit_no_agent_are_refused(key):
    with pytest.raises(ConfigError, match="matches no agent"):
        agents_of(agents={key: {"discount": 0.5}})


def test_an_unknown_algorithm_is_refused():
    with pytest.raises(ConfigError, match="unknown algorithm 'pop': did you mean 'ppo'"):
        agents_of(agents={"gatherer": {"algorithm": "pop"}})


# Groups.


def test_agents_with_the_same_settings_are_one_group_in_order():
    assert ids_of(groups_of(agents_of())) == [list(IDS)]


def test_scripted_agents_are_in_no_group():
    agents = agents_of(agents={"hunter_b": {"player": "random"}})

    assert ids_of(groups_of(agents)) == [["hunter_a", "gatherer"]]


def test_frozen_agents_are_grouped_with_learning_ones():
    agents = agents_of(agents={"hunter_b": {"learning": False}})

    assert ids_of(groups_of(agents)) == [list(IDS)]


def test_each_algorithm_has_its_own_group():
    agents = agents_of(agents={"hunter*": {"algorithm": "ppo"}})

    assert ids_of(groups_of(agents)) == [["hunter_a", "hunter_b"], ["gatherer"]]


@pytest.mark.parametrize(
    "different",
    [
        {"parts": LARGE_VIEW},
        {"actions": ("left", "right", "stay")},
        {"masked": True},
        {"actions": (("left", "right"), ("speak", "be still"))},
    ],
    ids=["parts", "actions", "masks", "product"],
)
def test_agents_of_different_shapes_are_not_grouped(different):
    specs = specs_of("hunter_a", "hunter_b") + specs_of("gatherer", **different)

    groups = groups_of(agents_of(specs))

    assert ids_of(groups) == [["hunter_a", "hunter_b"], ["gatherer"]]


def test_names_of_actions_and_roles_do_not_matter():
    first, second = specs_of("a", "b")
    second = replace(second, role="other", actions=("up", "down"))

    assert ids_of(groups_of(agents_of([first, second]))) == [["a", "b"]]


@pytest.mark.parametrize(
    "free",
    [
        {"learning_rate": 0.1},
        {"discount": 0.5, "discount_per": "step"},
        {"updates_per_round": 1},
        {"epsilon": {"end": 0.5}},
        {"reward": {"clip": 1.0}},
        {"rate": {"schedule": "cosine"}},
        {"target": {"every": 100, "rate": 1.0}},
        {"gradient": {"clip": 1.0}},
        {"replay": {"capacity": 5000, "warmup": 500, "exponent": 0.1, "correction": 1.0}},
        {"learning": False},
        {"from": "runs/a:0"},
    ],
    ids=lambda free: " ".join(free),
)
def test_agents_of_a_group_can_differ_in(free):
    first, second, _ = agents_of(agents={"hunter_b": free})

    assert stack_key(first) == stack_key(second)


@pytest.mark.parametrize(
    "bound",
    [
        {"algorithm": "ppo"},
        {"frames": 9},
        {"n_step": 9},
        {"batch_size": 9},
        {"network": {"width": 9}},
        {"network": {"channels": 16}},
        {"gradient": {"accumulate": 9}},
        {"replay": {"kind": "prioritised"}},
        {"iqn": {"threshold": 9.0}},
        {"ppo": {"entropy": 0.9}},
    ],
    ids=lambda bound: " ".join(bound),
)
def test_agents_of_a_group_have_in_common(bound):
    first, second, _ = agents_of(agents={"hunter_b": bound})

    assert stack_key(first) != stack_key(second)


def test_algorithms_that_cannot_be_stacked_have_one_group_per_agent():
    agents = agents_of()
    single = replace(IQN, name="single", stackable=False)

    groups = groups_of([replace(agent, algorithm=single) for agent in agents])

    assert ids_of(groups) == [[agent] for agent in IDS]


# Refusals.


@pytest.mark.shows("B10")
@pytest.mark.parametrize(
    ("settings", "needed"),
    [
        ({"replay": {"capacity": 100, "warmup": 101}}, 101),
        ({"replay": {"capacity": 100, "warmup": 10}, "batch_size": 128}, 128),
    ],
    ids=["warm-up", "batch"],
)
def test_a_replay_too_small_to_ever_learn_from_is_refused(settings, needed):
    agents = agents_of(agents={"gatherer": settings})

    with pytest.raises(
        ConfigError,
        match=rf"'gatherer' would never learn.*capacity is 100.*starts at {needed} .*raise",
    ) as caught:
        check_agents(agents)
    assert len(caught.value.problems) == 1


@pytest.mark.shows("B10")
def test_all_agents_that_would_never_learn_are_reported_at_once():
    agents = agents_of(replay={"capacity": 10, "warmup": 20})

    with pytest.raises(ConfigError, match="3 problems") as caught:
        check_agents(agents)

    assert [text.split("'")[1] for text in caught.value.problems] == list(IDS)


@pytest.mark.shows("B10")
@pytest.mark.parametrize(
    "settings",
    [
        {"replay": {"capacity": 1000, "warmup": 500}},
        {"replay": {"capacity": 10, "warmup": 20}, "learning": False},
        {"replay": {"capacity": 10, "warmup": 20}, "player": "random"},
    ],
    ids=["enough", "frozen", "scripted"],
)
def test_agents_that_can_learn_or_need_not_are_accepted(settings):
    check_agents(agents_of(agents={"*": settings}))


def training_of(**settings):
    """Return a training of treasurehunt: 4 worlds, 10 turns per round."""
    entry = find("treasurehunt")
    raw = {"game": {"name": "treasurehunt"}, "worlds": 4, "turns_per_round": 10}
    return Training.build(entry, resolve(raw | settings, entry.settings))


@pytest.mark.shows("B10")
def test_a_replay_that_never_holds_enough_usable_transitions_is_refused():
    # 16 turns of 4 worlds are 64 rows, but the newest 3 turns' transitions are still open.
    with pytest.raises(ConfigError, match=r"would never learn.*replay\.capacity is 64"):
        training_of(replay={"capacity": 64, "warmup": 64}, batch_size=32, n_step=3)


@pytest.mark.shows("B10")
def test_a_replay_with_too_many_open_transitions_is_refused():
    # Of five turns of two worlds, those of the newest three are open.
    small = {"replay": {"capacity": 9, "warmup": 8}, "batch_size": 8, "n_step": 3}

    with pytest.raises(ConfigError, match=r"would never learn.*at most 4.*to 13, or"):
        training_of(worlds=2, **small)


@pytest.mark.shows("B10")
@pytest.mark.parametrize("algorithm", ["iqn", "dqn", "recurrent_dqn", "tabular"])
@pytest.mark.parametrize(("worlds", "needed", "n_step"), [(2, 8, 3), (3, 10, 5), (4, 1, 1)])
def test_an_agent_learns_from_the_smallest_replay_that_is_accepted(
    algorithm, worlds, needed, n_step
):
    def small(capacity):
        return training_of(
            algorithm=algorithm,
            worlds=worlds,
            n_step=n_step,
            batch_size=needed,
            replay={"capacity": capacity, "warmup": 1},
            frames=1,
            rounds=2,
            network={"width": 16},
        )

    with pytest.raises(ConfigError, match=r"raise replay\.capacity to \d+") as caught:
        small(1)
    enough = int(re.search(r"to (\d+), or", str(caught.value))[1])
    with pytest.raises(ConfigError, match="would never learn"):
        small(enough - 1)
    training = small(enough)
    *_, last = training.rounds()
    training.close()

    assert all(metrics["updates"] > 0 for metrics in last.learned.metrics.values())


@pytest.mark.shows("B10")
def test_ppo_learns_from_whole_rounds_however_small_the_replay():
    # 8 rows are 2 turns of 4 worlds, and a round has 10.
    weights = []
    for capacity in (8, 100_000):
        training = training_of(
            algorithm="ppo", replay={"capacity": capacity, "warmup": 1}, rounds=3
        )
        for _ in training.rounds():
            pass
        weights.append(training.arena.states("0").read(3)["weights"].tobytes())
        training.close()

    assert weights[0] == weights[1]
