"""Recurrent learners: losses by hand, and against plain loops over rows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rookery.algorithms.agents import check_agents
from rookery.algorithms.common.rollout import LEAST
from rookery.algorithms.recurrent_dqn import RECURRENT_DQN
from rookery.algorithms.recurrent_ppo import RECURRENT_PPO
from rookery.errors import ConfigError
from rookery.replay.buffer import ReplayReader, ReplayWriter
from rookery.replay.rows import Rows
from rookery.replay.sequences import Timeline
from rookery.shm.block import Block
from rookery.specs import Part
from tests.algorithms.conftest import SEED, WORLDS, Crew, agent_of, spec_of

PART = {"self": Part((3,), np.dtype(np.float32))}
LENGTH = 6


# By hand: a network whose values are its last biases, and three steps.


def hand_plan(burn_in, gap):
    return agent_of(
        spec=spec_of(parts=PART, actions=2),
        frames=1,
        n_step=1,
        discount=0.5,
        batch_size=2,
        updates_per_round=1,
        replay={"warmup": 1},
        dqn={"dueling": False, "gap": gap},
        recurrent={"sequence": 4, "burn_in": burn_in},
    )


def hand_reader(agent):
    """Return an episode of three steps, its closing row, and the next one's first."""
    rows = Rows(Block.create(Rows.layout(agent.spec, 1, 8, 16)))
    writer = ReplayWriter(rows)
    ages, actions, rewards = [0, 1, 2, 3, 0], [0, 1, 0, 0, 0], [1.0, 0.0, 3.0, 0.0, 0.0]
    for turn in range(5):
        seen, active = {"self": np.ones((1, 3), np.float32)}, np.array([turn != 3])
        hidden = np.full((1, 16), 0.1 * turn, np.float32)
        writer.write_observation(turn, seen, active, None, np.array([ages[turn]]), hidden)
        writer.write_action(turn, np.array([actions[turn]]), 0.5, 0)
        over = np.array([turn == 2])
        writer.write_outcome(turn, np.array([rewards[turn]]), over, ~np.ones(1, bool))
    reader = ReplayReader("0", rows, capacity=5, frames=1, n_step=1, discount=0.5)
    reader.advance(5)
    return reader


def learned_by_hand(step, burn_in, gap=0.0):
    agent = hand_plan(burn_in, gap)
    learner = RECURRENT_DQN.learner([agent], SEED)
    named = learner.named(learner.initial(agent))
    for name, array in named.items():
        array[...] = 0
        if name in ("weights.values.bias", "target.values.bias"):
            array[0] = (1.0, 2.0)
    learner.load([learner.unnamed(named)])
    reader = hand_reader(agent)
    reader.sample = lambda numbers: np.full(len(numbers), step)
    (metrics,) = learner.learn([reader], 1, 0)
    return metrics


# Values are 1 and 2. The steps aim at 1 + 2/2, 0 + 2/2 and 3; they are off by 1, -1 and 2.
LOSSES = {0: 0.5, 1: 0.5, 2: 1.5}
SIZES = {0: 1.0, 1: 1.0, 2: 2.0}


@pytest.mark.parametrize(
    ("step", "burn_in", "learned"),
    [(0, 0, (0, 1, 2)), (0, 2, (0, 1, 2)), (1, 0, (1, 2)), (1, 1, (2,))],
    ids=["all", "an episode's start needs no burn-in", "from the second", "burn-in"],
)
def test_the_loss_of_three_steps_is_what_one_reckons_by_hand(step, burn_in, learned):
    metrics = learned_by_hand(step, burn_in)

    loss = sum(LOSSES[i] for i in learned) / len(learned)
    sizes = [SIZES[i] for i in learned]
    assert metrics["updates"] == 1
    assert metrics["loss"] == pytest.approx(loss)
    assert metrics["td_error"] == pytest.approx(0.9 * max(sizes) + 0.1 * np.mean(sizes))


def test_worse_actions_are_aimed_below_what_followed():
    # The first and the last took the action that is worth 1 less: they aim half of that
    # lower, at 1.5 and 2.5.
    metrics = learned_by_hand(0, 0, gap=0.5)

    assert metrics["loss"] == pytest.approx((0.125 + 0.5 + 1.0) / 3)
    assert metrics["td_error"] == pytest.approx(0.9 * 1.5 + 0.1 * (0.5 + 1 + 1.5) / 3)


# Against plain loops.


class Plain:
    """One agent's network as one would write it down, row by row."""

    def __init__(self, learner, agent, flat):
        named = learner.named_weights(agent, np.array(flat))
        self._of = {name: torch.from_numpy(each.copy()) for name, each in named.items()}
        self._agent = agent
        self._cell = torch.nn.GRUCell(agent.settings.network.width, 16)
        with torch.no_grad():
            for mine, theirs in (("ih", "seen"), ("hh", "carried")):
                getattr(self._cell, f"weight_{mine}").copy_(self._of[f"{theirs}.weight"].T)
                getattr(self._cell, f"bias_{mine}").copy_(self._of[f"{theirs}.bias"][0])

    def linear(self, name, inputs):
        return inputs @ self._of[f"{name}.weight"] + self._of[f"{name}.bias"][0]

    def carry(self, reader, turn, world, hidden, activation):
        """Return what is carried on from a row."""
        seen = reader.observations(np.array([turn]), np.array([world]))
        parts = self._agent.spec.parts
        flat = [seen[n].reshape(-1) * parts[n].scale for n in parts]
        inputs = torch.from_numpy(np.concatenate(flat).astype(np.float32))
        read = activation(self.linear("read.0", inputs))
        return self._cell(read[None], hidden[None])[0]

    def values(self, reader, turn, world, hidden):
        carried = self.carry(reader, turn, world, hidden, torch.relu)
        found = self.linear("values", torch.relu(self.linear("hidden", carried)))
        return found[-1] + found[:-1] - found[:-1].mean(), carried

    def policy(self, reader, turn, world, hidden):
        carried = self.carry(reader, turn, world, hidden, torch.tanh)
        logs = torch.log_softmax(self.linear("choose", carried), dim=0)
        return logs, self.linear("value", carried)[0], carried


def entry(reader, column, turn, world):
    return reader.at(column, np.array([turn]), np.array([world]))[0]


def stored(reader, turn, world):
    return torch.from_numpy(entry(reader, "hidden", turn, world).copy())


def began(reader, turn, world):
    return turn - int(entry(reader, "age", turn, world))


@torch.no_grad()
def plain_dqn_loss(reader, steps, weights, target, burn_in):
    total, count = 0.0, 0
    usable = set(reader.usable.tolist())
    for step in steps.tolist():
        turn, world = divmod(step, WORLDS)
        own = reader.usable[reader.usable % WORLDS == world]
        closing = set(reader.closes(own).tolist())
        rows = range(turn, reader.boundary)
        turns = [t for t in rows if entry(reader, "active", t, world) or t in closing]
        turns, found, fresh = turns[:LENGTH], [], False
        hidden = [stored(reader, turn, world)] * 2
        for row, now in enumerate(turns):
            starts = not row and not hidden[0].any()
            if row and began(reader, now, world) > turns[row - 1]:
                hidden, starts = [torch.zeros(16)] * 2, True
            fresh |= starts or row >= burn_in
            values, first = weights.values(reader, now, world, hidden[0])
            after, second = target.values(reader, now, world, hidden[1])
            hidden = [first, second]
            found.append((now, values, after, fresh))
        places = {now: row for row, now in enumerate(turns)}
        for now, values, _, is_fresh in found:
            number = np.array([now * WORLDS + world])
            closes = int(reader.closes(number)[0])
            if not is_fresh or int(number[0]) not in usable or closes not in places:
                continue
            _, likes, after, _ = found[places[closes]]
            one, discount = reader.outcomes(np.array([now]), np.array([world]))
            aim = one[0] + discount[0] * after[likes.argmax()]
            error = float(aim - values[entry(reader, "action", now, world)])
            total += 0.5 * error**2 if abs(error) < 1 else abs(error) - 0.5
            count += 1
    return total / count


def test_the_loss_of_sequences_is_that_of_plain_loops():
    agent = agent_of(updates_per_round=1, recurrent={"sequence": LENGTH, "burn_in": 2})
    crew = Crew(RECURRENT_DQN, [agent], luck=[4])
    crew.train(rounds=2)
    crew.lives[0].live()
    reader, drawn = crew.lives[0].reader, []
    draw = reader.sample
    reader.sample = lambda numbers: drawn.append(draw(numbers)) or drawn[-1]
    state = crew.states[0]
    both = [Plain(crew.learner, agent, state[name]) for name in ("weights", "target")]

    (metrics,) = crew.learn()

    expected = plain_dqn_loss(reader, drawn[0], *both, burn_in=2)
    assert metrics["loss"] == pytest.approx(expected, rel=1e-4)


@torch.no_grad()
def plain_ppo_loss(reader, first, plain, settings):
    """Return the loss over all steps of a round, in sequences of `LENGTH`."""
    steps = {}
    for number in np.sort(reader.closed_since(first)).tolist():
        turn, world = divmod(number, WORLDS)
        closes = int(reader.closes(np.array([number]))[0])
        value = plain.policy(reader, turn, world, stored(reader, turn, world))[1]
        after = plain.policy(reader, closes, world, stored(reader, closes, world))[1]
        got, discount = (
            each[0] for each in reader.outcomes(np.array([turn]), np.array([world]))
        )
        error = float(got + discount * after - value)
        steps[turn, world] = SimpleNamespace(
            closes=closes, value=float(value), raw=error, decay=discount * settings.gae
        )
    for (_, world), one in sorted(steps.items(), reverse=True):
        if (one.closes, world) in steps:
            one.raw += one.decay * steps[one.closes, world].raw
    raws = np.array([one.raw for one in steps.values()])
    total = 0.0
    for world in range(WORLDS):
        turns = sorted(turn for turn, where in steps if where == world)
        for row, turn in enumerate(turns):
            if row % LENGTH == 0:
                hidden = stored(reader, turn, world)
            elif began(reader, turn, world) > turns[row - 1]:
                hidden = torch.zeros(16)
            logs, value, hidden = plain.policy(reader, turn, world, hidden)
            one = steps[turn, world]
            advantage = (one.raw - raws.mean()) / (raws.std() + LEAST)
            old = np.log(entry(reader, "probability", turn, world))
            ratio = float((logs[entry(reader, "action", turn, world)] - old).exp())
            kept = np.clip(ratio, 1 - settings.clip, 1 + settings.clip)
            total -= min(ratio * advantage, kept * advantage)
            total += settings.entropy * float((logs.exp() * logs).sum())
            total += settings.value * (one.value + one.raw - float(value)) ** 2
    return total / len(steps)


def test_the_loss_of_a_round_is_that_of_plain_loops():
    agent = agent_of(
        ppo={"passes": 1, "minibatches": 1}, recurrent={"sequence": LENGTH, "burn_in": 2}
    )
    crew = Crew(RECURRENT_PPO, [agent], luck=[4])
    crew.train(rounds=2)
    life = crew.lives[0]
    life.live()
    plain = Plain(crew.learner, agent, crew.states[0]["weights"])

    (metrics,) = crew.learn()

    expected = plain_ppo_loss(life.reader, life.first, plain, agent.settings.ppo)
    assert metrics["loss"] == pytest.approx(expected, rel=1e-3)


# What does not go together.


def test_sequences_with_no_row_to_learn_from_are_refused():
    agent = agent_of(n_step=3, recurrent={"sequence": 8, "burn_in": 5})
    agent = replace(agent, algorithm=RECURRENT_DQN, learns=True)

    with pytest.raises(
        ConfigError,
        match=r"agent '0': recurrent.sequence is 8, but recurrent.burn_in \(5\) and n_step "
        r"\(3\) leave no row of it to learn from: raise recurrent.sequence",
    ):
        check_agents([agent])
    check_agents([replace(agent, algorithm=RECURRENT_PPO, learns=True)])


def test_retrace_is_refused():
    agent = agent_of(dqn={"retrace": 0.9})

    with pytest.raises(
        ConfigError, match=r"dqn.retrace is 0.9, but recurrent_dqn learns from sequences"
    ):
        check_agents([replace(agent, algorithm=RECURRENT_DQN, learns=True)])


# Priorities.


def test_a_sequence_that_was_not_learned_from_keeps_its_priority():
    agent = agent_of(
        0,
        n_step=3,
        updates_per_round=40,
        replay={"kind": "prioritised", "capacity": 500},
        recurrent={"sequence": 8, "burn_in": 4},
    )
    crew = Crew(RECURRENT_DQN, [agent])

    crew.train(rounds=1)

    reader, (state,) = crew.lives[0].reader, crew.states
    read = Timeline(reader).read(reader.usable, 8, 4)
    learned = read.trained.any(axis=1)
    leaves = state["priorities"].reshape(-1, WORLDS)[reader.opening(reader.usable)]
    assert (~learned).sum() > 3
    assert (leaves[~learned] == 1.0).all()  # what the first steps enter with
    assert (leaves[learned] != 1.0).mean() > 0.9
