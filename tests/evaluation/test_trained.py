"""Trained agents outside a game: they compute with the bits of training.

One run has an agent of every algorithm, and of users' code. What an agent answers about
single observations and batches is compared with the actor's own computation, and with a
greedy match.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch

import rookery
from rookery.algorithms.base import PolicyInput, PolicyOutput
from rookery.algorithms.grouping import groups_of
from rookery.algorithms.registry import algorithms
from rookery.algorithms.torch_setup import standard_state
from rookery.evaluation.trained import EXACT_ROWS, TrainedPlayer
from rookery.games.loop import GameLoop
from rookery.games.players import Observation
from rookery.specs import Array

CODE = """
import numpy as np
import torch

class Net(torch.nn.Module):
    def __init__(self, spec, settings):
        super().__init__()
        self.last = torch.nn.LazyLinear(spec.num_actions)

    def forward(self, inputs):
        return self.last(torch.cat([part.flatten(1) for part in inputs.values()], 1))

class LinearQ:
    def __init__(self, spec, settings):
        inputs = settings.frames * sum(np.prod(p.shape) for p in spec.parts.values())
        self.table = np.random.normal(size=(inputs, spec.num_actions))

    def values(self, seen):
        return self.flat(seen) @ self.table

    def flat(self, seen):
        return np.concatenate([p.reshape(len(p), -1) for p in seen.values()], axis=1)

    def update(self, batch):
        pass

    def state(self):
        return {"table": self.table}

    def load(self, state):
        self.table = state["table"]

class Softmax(LinearQ):
    values = None

    def probabilities(self, seen):
        weights = np.exp(self.flat(seen) @ self.table / 100)
        return weights / weights.sum(axis=1, keepdims=True)
"""
CUSTOM = ("Net", "LinearQ", "Softmax")
STATE_VALUES = ("ppo", "vtrace", "recurrent_ppo")
NAMES = (*sorted(algorithms()), "dqn, not alone", *CUSTOM)
WORLDS = 6
QUICK = {
    "rounds": 2,
    "turns_per_round": 12,
    "worlds": WORLDS,
    "updates_per_round": 2,
    "batch_size": 8,
    "replay.warmup": 16,
    "frames": 2,
    "network.width": 20,
    "recurrent.sequence": 8,
    "recurrent.width": 16,
    "recurrent.burn_in": 2,
    "tabular.entries": 400,
    "workers": 0,
    "game.turns": 7,
    "game.agents": len(NAMES),
}


@dataclass
class Trained:
    """A run, and the user's algorithms in it."""

    run: rookery.Run
    named: list[str]

    def load(self, name: str) -> rookery.TrainedAgent:
        return rookery.load_agent(self.run.path, NAMES.index(name), algorithm=self.named)


@pytest.fixture(scope="module", params=[WORLDS, 3], ids=["many worlds", "few worlds"])
def trained(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Trained:
    folder = tmp_path_factory.mktemp("trained")
    (folder / "mine.py").write_text(CODE)
    paths = {name: f"{folder / 'mine.py'}:{name}" for name in CUSTOM}
    paths["dqn, not alone"] = "dqn"
    agents = {i: {"algorithm": paths.get(name, name)} for i, name in enumerate(NAMES)}
    settings = QUICK | {"worlds": request.param}
    run = rookery.train("treasurehunt", run=folder / "run", agents=agents, **settings)
    return Trained(run, list(paths.values()))


def random_parts(agent: rookery.TrainedAgent, worlds: int, seed: int) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    return {
        name: random.integers(0, 2, (worlds, *part.shape)).astype(part.dtype)
        for name, part in agent.spec.parts.items()
    }


def as_in_training(trained: Trained, name: str, parts: dict[str, Array]) -> PolicyOutput:
    """Return what the actor computes for an agent, together with the rest of its group."""
    number, players = NAMES.index(name), trained.run.players()
    worlds = trained.run.worlds
    group = next(
        group
        for group in groups_of(trained.run.agents)
        if number in [agent.number for agent in group]
    )
    index = [agent.number for agent in group].index(number)
    frames = {
        key: np.stack([np.zeros_like(array), array], axis=1) for key, array in parts.items()
    }
    hidden = [np.zeros((worlds, agent.hidden), np.float32) for agent in group]
    with standard_state():
        policy = group[0].policy(group, 0)
        policy.begin_round([players[agent.id].weights for agent in group], 0, noise=False)
        output = policy.act(
            PolicyInput(
                [frames] * len(group),
                [None] * len(group),
                np.full((len(group), worlds, 2), 0.5),
                np.zeros(len(group)),
                hidden if group[0].hidden else [],
            )
        )
    return PolicyOutput(
        **{
            key: None if array is None else array[index]
            for key, array in vars(output).items()
        }
    )


def same(name: str, actual: Any, expected: Any) -> bool:
    """Whether two results have the same bits.

    A network of the user's own can give a row other bits in another place of a pass: only
    the widths of Rookery's own networks are padded so that they do not.
    """
    if name == "Net":
        return np.allclose(actual, expected, rtol=1e-4, atol=1e-6)
    return actual.dtype == expected.dtype and actual.tobytes() == expected.tobytes()


def asked(agent: rookery.TrainedAgent, name: str, parts: dict[str, Array]) -> Any:
    return agent.probabilities(parts) if name == "Softmax" else agent.values(parts)


@pytest.mark.parametrize("name", NAMES)
def test_one_observation_has_the_bits_of_training(trained: Trained, name: str) -> None:
    agent = trained.load(name)
    parts = random_parts(agent, trained.run.worlds, seed=1)
    expected = as_in_training(trained, name, parts)
    table = expected.values if name in STATE_VALUES else expected.action_values
    table = expected.action_probabilities if name == "Softmax" else table
    assert table is not None

    for world in range(trained.run.worlds):
        single = {key: array[world] for key, array in parts.items()}
        assert same(name, asked(agent, name, single), table[world])
        assert agent.act(single) == expected.actions[world]
        agent.reset()


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 17])
@pytest.mark.parametrize("name", NAMES)
def test_a_batch_of_any_size_has_the_bits_of_training(
    trained: Trained, name: str, size: int
) -> None:
    agent = trained.load(name)
    worlds = np.arange(size) % trained.run.worlds
    parts = random_parts(agent, trained.run.worlds, seed=2)
    expected = as_in_training(trained, name, parts)
    table = expected.values if name in STATE_VALUES else expected.action_values
    table = expected.action_probabilities if name == "Softmax" else table
    assert table is not None

    batch = {key: array[worlds] for key, array in parts.items()}

    assert same(name, asked(agent, name, batch), table[worlds])
    actions = agent.act(batch)
    assert isinstance(actions, np.ndarray)
    assert actions.tolist() == expected.actions[worlds].tolist()


class Spy:
    """Plays as a trained agent, and keeps everything it observed and computed."""

    def __init__(self, agent: rookery.TrainedAgent) -> None:
        self._agent, self.__name__ = agent, "spy"
        self.turns: list[tuple[Observation, PolicyOutput, Array]] = []

    def __call__(self, *arguments: Any) -> TrainedPlayer:
        player = self._agent(*arguments)
        assert isinstance(player, TrainedPlayer)
        starting = np.ones(player.worlds, bool)
        look, forget = player.look, player.forget

        def spy_look(observation: Observation, turn: int) -> Any:
            policy_input, output = look(observation, turn)
            parts = {name: array.copy() for name, array in observation.parts.items()}
            copied = Observation(parts, observation.active.copy(), None)
            self.turns.append((copied, output, starting.copy()))
            starting[:] = False
            return policy_input, output

        def spy_forget(worlds: Array) -> None:
            starting[worlds] = True
            forget(worlds)

        player.look, player.forget = spy_look, spy_forget  # type: ignore[method-assign]
        return player


@pytest.fixture(scope="module")
def match(trained: Trained) -> list[Spy]:
    """Twenty turns of a greedy match in five worlds, by agent."""
    spies = [Spy(trained.load(name)) for name in NAMES]
    config = trained.run.config
    game = trained.run.entry.build_guarded(config.game.settings, 5, seed=7)
    seats = trained.run.entry.seat_players(game, spies, seed=0)
    turns = GameLoop(game, list(seats.values())).turns()
    for _ in range(20):
        next(turns)
    game.close()
    return spies


def turns_of(spy: Spy) -> Iterator[tuple[Observation, PolicyOutput, Array]]:
    assert sum(starting.any() for _, _, starting in spy.turns) > 1
    return iter(spy.turns)


@pytest.mark.parametrize("name", NAMES)
def test_one_observation_at_a_time_gives_the_actions_and_values_of_a_greedy_match(
    trained: Trained, match: list[Spy], name: str
) -> None:
    agent = trained.load(name)
    for observation, output, starting in turns_of(match[NAMES.index(name)]):
        if starting[4]:
            agent.reset()
        if not observation.active[4]:
            continue
        single = {key: array[4] for key, array in observation.parts.items()}
        values = output.action_values
        if name in STATE_VALUES:
            assert same(name, agent.values(single), output.values[0, 4])
        elif values is not None:
            assert same(name, agent.values(single), values[0, 4])
        assert agent.act(single) == output.actions[0, 4]


@pytest.mark.parametrize("name", NAMES)
def test_batches_give_the_actions_and_values_of_a_greedy_match(
    trained: Trained, match: list[Spy], name: str
) -> None:
    agent, rows = trained.load(name), np.array([3, 1])
    for observation, output, starting in turns_of(match[NAMES.index(name)]):
        agent.reset(starting[rows] if agent._player else None)
        if not observation.active.all():
            assert not observation.active.any()  # between two episodes
            continue
        batch = {key: array[rows] for key, array in observation.parts.items()}
        if output.action_values is not None:
            assert same(name, agent.values(batch), output.action_values[0, rows])
        actions = agent.act(batch)
        assert isinstance(actions, np.ndarray)
        assert actions.tolist() == output.actions[0, rows].tolist()


def test_products_of_fewer_rows_than_these_have_other_bits() -> None:
    generator = torch.Generator().manual_seed(0)
    differ = set()
    with standard_state():
        for inputs, outputs in ((16, 16), (48, 128), (400, 64)):
            weights = torch.randn(1, inputs, outputs, generator=generator)
            bias = torch.randn(1, 1, outputs, generator=generator)
            rows = torch.randn(1, 64, inputs, generator=generator)
            every = torch.baddbmm(bias, rows, weights)
            for count in range(1, 64):
                some = torch.baddbmm(bias, rows[:, :count], weights)
                if not torch.equal(some, every[:, :count]):
                    differ.add(count)

    assert differ <= set(range(1, EXACT_ROWS))


# Memory.


@pytest.mark.parametrize("name", ["iqn", "recurrent_dqn", "recurrent_ppo"])
def test_asking_for_values_or_probabilities_remembers_nothing(
    trained: Trained, name: str
) -> None:
    one, other = trained.load(name), trained.load(name)
    for seed in range(4):
        parts = random_parts(one, 1, seed)
        for _ in range(seed):
            one.values(random_parts(one, 1, seed + 10))
            one.probabilities(random_parts(one, 1, seed + 20))

        assert one.values(parts).tobytes() == other.values(parts).tobytes()
        one.act(parts)
        other.act(parts)


@pytest.mark.parametrize("name", ["iqn", "recurrent_dqn"])
def test_each_row_of_a_batch_has_its_own_memory(trained: Trained, name: str) -> None:
    agent = trained.load(name)
    first, second = (random_parts(agent, 3, seed) for seed in (1, 2))
    agent.act(first)
    remembering = agent.values(second)

    agent.reset([1])

    after = agent.values(second)
    fresh = trained.load(name).values(second)
    assert (after[[0, 2]] == remembering[[0, 2]]).all()
    assert (after[1] == fresh[1]).all()
    assert (after[1] != remembering[1]).any()


def test_another_batch_size_needs_a_reset(trained: Trained) -> None:
    agent = trained.load("iqn")
    agent.act(random_parts(agent, 3, 1))

    with pytest.raises(
        rookery.ObservationError,
        match=r"agent '1' got a batch of 2 after a batch of 3, and remembers each of them: "
        r"pass as many as before, or call reset\(\) first",
    ):
        agent.act(random_parts(agent, 2, 1))
    agent.reset()
    assert np.shape(agent.act(random_parts(agent, 2, 1))) == (2,)


def test_resetting_no_row_forgets_nothing(trained: Trained) -> None:
    agent = trained.load("iqn")
    agent.act(random_parts(agent, 2, 1))
    before = agent.values(random_parts(agent, 2, 2))

    for nothing in ([], np.array([]), [False, False]):
        agent.reset(nothing)

    assert (agent.values(random_parts(agent, 2, 2)) == before).all()


def test_random_numbers_are_not_those_of_the_last_episode(trained: Trained) -> None:
    agent = trained.load("iqn")
    agent.exploration = 1.0
    parts = random_parts(agent, 50, 1)
    episodes = []
    for _ in range(3):
        episodes.append(tuple(agent.act(parts)))
        agent.reset()

    assert len(set(episodes)) == 3


def test_rows_that_do_not_exist_cannot_be_reset(trained: Trained) -> None:
    agent = trained.load("iqn")
    agent.act(random_parts(agent, 3, 1))

    for which in ([3], [True, False]):
        with pytest.raises(
            rookery.ObservationError, match="the last batch had 3 observations; pass"
        ):
            agent.reset(which)


# Values and probabilities.


@pytest.mark.parametrize("name", NAMES)
def test_probabilities_are_those_of_the_policy(trained: Trained, name: str) -> None:
    agent = trained.load(name)
    parts = random_parts(agent, 5, 3)
    count = agent.spec.num_actions
    legal = np.arange(count) % 2 == 0

    greedy, masked = agent.probabilities(parts), agent.probabilities(parts, [legal] * 5)
    actions = agent.act(parts)
    agent.exploration = 0.5
    exploring = agent.probabilities(parts)

    for table in (greedy, masked, exploring):
        assert table.shape == (5, count)
        assert np.allclose(table.sum(axis=1), 1)
    assert not masked[:, ~legal].any()
    assert (greedy.argmax(axis=1) == actions).all()
    if name in (*STATE_VALUES, "Softmax"):
        assert (greedy > 0).all()
        assert exploring.shape == greedy.shape
    else:
        assert (np.sort(greedy, axis=1)[:, -1] == 1).all()
        assert np.allclose(exploring.min(axis=1), 0.5 / count)


@pytest.mark.parametrize("name", ["iqn", "ppo", "Softmax"])
def test_exploring_agents_act_by_their_probabilities(trained: Trained, name: str) -> None:
    agent = trained.load(name)
    agent.exploration = 0.5
    parts = {
        key: array.repeat(4000, axis=0) for key, array in random_parts(agent, 1, 1).items()
    }
    probabilities = agent.probabilities(parts)[0]

    actions = agent.act(parts)

    shares = np.bincount(actions, minlength=len(probabilities)) / 4000
    assert np.abs(shares - probabilities).max() < 0.04


def test_an_algorithm_without_values_says_so(trained: Trained) -> None:
    agent = trained.load("Softmax")

    with pytest.raises(
        rookery.AlgorithmError, match=r"has no values: .*Softmax gives probabilities; ask"
    ):
        agent.values(random_parts(agent, 1, 1))


def test_an_agent_shows_itself_in_one_line(trained: Trained) -> None:
    assert repr(trained.load("ppo")) == (
        f"TrainedAgent(treasurehunt, agent {NAMES.index('ppo')}, ppo, round 2)"
    )
