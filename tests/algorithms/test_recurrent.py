"""Recurrent learners: losses by hand, and against plain loops over rows."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from rookery.algorithms.agents import check_agents
from rookery.algorithms.common.rollout import SMALLEST_STD
from rookery.algorithms.recurrent_dqn import RECURRENT_DQN
from rookery.algorithms.recurrent_ppo import RECURRENT_PPO
from rookery.errors import ConfigError
from rookery.replay.buffer import ReplayReader, ReplayWriter
from rookery.replay.rows import Rows
from rookery.replay.sequences import Timeline
from rookery.shm.block import Block
from rookery.specs import Part
from tests.algorithms.conftest import SEED, WORLDS, GroupTrainer, agent_of, spec_of

PART = {"self": Part((3,), np.dtype(np.float32))}
LENGTH = 6


# By hand: a network whose values are its last biases, and three transitions.


def hand_agent(burn_in, gap):
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
    """Return an episode of three transitions, its closing row, and the next one's first."""
    rows = Rows(Block.create(Rows.layout(agent.spec, 1, 8, 16)))
    writer = ReplayWriter(rows)
    ages, actions, rewards = [0, 1, 2, 3, 0], [0, 1, 0, 0, 0], [1.0, 0.0, 3.0, 0.0, 0.0]
    for turn in range(5):
        parts, active = {"self": np.ones((1, 3), np.float32)}, np.array([turn != 3])
        hidden = np.full((1, 16), 0.1 * turn, np.float32)
        writer.write_observation(turn, parts, active, None, np.array([ages[turn]]), hidden)
        writer.write_action(turn, np.array([actions[turn]]), 0.5, 0)
        over = np.array([turn == 2])
        writer.write_outcome(turn, np.array([rewards[turn]]), over, ~np.ones(1, bool))
    reader = ReplayReader("0", rows, capacity=5, frames=1, n_step=1, discount=0.5)
    reader.advance(5)
    return reader


def learned_by_hand(step, burn_in, gap=0.0):
    agent = hand_agent(burn_in, gap)
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


# Values are 1 and 2. Targets are 1 + 2/2, 0 + 2/2 and 3: errors are 1, -1 and 2.
LOSSES = {0: 0.5, 1: 0.5, 2: 1.5}
SIZES = {0: 1.0, 1: 1.0, 2: 2.0}


@pytest.mark.parametrize(
    ("step", "burn_in", "learned"),
    [(0, 0, (0, 1, 2)), (0, 2, (0, 1, 2)), (1, 0, (1, 2)), (1, 1, (2,))],
    ids=["all", "an episode's start needs no burn-in", "from the second", "burn-in"],
)
def test_the_loss_of_three_transitions_by_hand(step, burn_in, learned):
    metrics = learned_by_hand(step, burn_in)

    loss = sum(LOSSES[i] for i in learned) / len(learned)
    sizes = [SIZES[i] for i in learned]
    assert metrics["updates"] == 1
    assert metrics["loss"] == pytest.approx(loss)
    assert metrics["td_error"] == pytest.approx(0.9 * max(sizes) + 0.1 * np.mean(sizes))


def test_targets_of_worse_actions_are_lowered_by_advantage_learning():
    # The first and the last took the action with a gap of 1: their targets are half of
    # that lower, 1.5 and 2.5.
    metrics = learned_by_hand(0, 0, gap=0.5)

    assert metrics["loss"] == pytest.approx((0.125 + 0.5 + 1.0) / 3)
    assert metrics["td_error"] == pytest.approx(0.9 * 1.5 + 0.1 * (0.5 + 1 + 1.5) / 3)


# Against plain loops.


class Plain:
    """One agent's network, row by row."""

    def __init__(self, learner, agent, flat):
        named = learner.named_weights(agent, np.array(flat))
        self._weights = {
            name: torch.from_numpy(each.copy()) for name, each in named.items()
        }
        self._agent = agent
        self._cell = torch.nn.GRUCell(agent.settings.network.width, 16)
        with torch.no_grad():
            for mine, theirs in (("ih", "seen"), ("hh", "carried")):
                getattr(self._cell, f"weight_{mine}").copy_(
                    self._weights[f"{theirs}.weight"].T
                )
                getattr(self._cell, f"bias_{mine}").copy_(
                    self._weights[f"{theirs}.bias"][0]
                )

    def linear(self, name, inputs):
        return inputs @ self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"][0]

    def step(self, reader, turn, world, hidden, activation):
        """Return the hidden state after a row."""
        observations = reader.observations(np.array([turn]), np.array([world]))
        parts = self._agent.spec.parts
        flat = [observations[name].reshape(-1) * parts[name].scale for name in parts]
        inputs = torch.from_numpy(np.concatenate(flat).astype(np.float32))
        encoded = activation(self.linear("read.0", inputs))
        return self._cell(encoded[None], hidden[None])[0]

    def values(self, reader, turn, world, hidden):
        hidden = self.step(reader, turn, world, hidden, torch.relu)
        outputs = self.linear("values", torch.relu(self.linear("hidden", hidden)))
        return outputs[-1] + outputs[:-1] - outputs[:-1].mean(), hidden

    def policy(self, reader, turn, world, hidden):
        hidden = self.step(reader, turn, world, hidden, torch.tanh)
        log_probs = torch.log_softmax(self.linear("choose", hidden), dim=0)
        return log_probs, self.linear("value", hidden)[0], hidden


def entry(reader, column, turn, world):
    return reader.at(column, np.array([turn]), np.array([world]))[0]


def stored(reader, turn, world):
    return torch.from_numpy(entry(reader, "hidden", turn, world).copy())


def episode_start(reader, turn, world):
    return turn - int(entry(reader, "age", turn, world))


@torch.no_grad()
def plain_dqn_loss(reader, steps, weights, target, burn_in):
    total, count = 0.0, 0
    usable = set(reader.usable.tolist())
    for step in steps.tolist():
        turn, world = divmod(step, WORLDS)
        own = reader.usable[reader.usable % WORLDS == world]
        closing = set(reader.closes(own).tolist())
        later = range(turn, reader.boundary)
        turns = [t for t in later if entry(reader, "active", t, world) or t in closing]
        turns, rows, fresh = turns[:LENGTH], [], False
        hidden = [stored(reader, turn, world)] * 2
        for row, now in enumerate(turns):
            starts = not row and not hidden[0].any()
            if row and episode_start(reader, now, world) > turns[row - 1]:
                hidden, starts = [torch.zeros(16)] * 2, True
            fresh |= starts or row >= burn_in
            values, first = weights.values(reader, now, world, hidden[0])
            after, second = target.values(reader, now, world, hidden[1])
            hidden = [first, second]
            rows.append((now, values, after, fresh))
        indices = {now: row for row, now in enumerate(turns)}
        for now, values, _, is_fresh in rows:
            number = np.array([now * WORLDS + world])
            closes = int(reader.closes(number)[0])
            if not is_fresh or int(number[0]) not in usable or closes not in indices:
                continue
            _, online, after, _ = rows[indices[closes]]
            reward, discount = reader.outcomes(np.array([now]), np.array([world]))
            y = reward[0] + discount[0] * after[online.argmax()]
            error = float(y - values[entry(reader, "action", now, world)])
            total += 0.5 * error**2 if abs(error) < 1 else abs(error) - 0.5
            count += 1
    return total / count


def test_the_loss_of_sequences_is_that_of_plain_loops():
    agent = agent_of(updates_per_round=1, recurrent={"sequence": LENGTH, "burn_in": 2})
    trainer = GroupTrainer(RECURRENT_DQN, [agent], data_seeds=[4])
    trainer.train(rounds=2)
    trainer.experiences[0].play_round()
    reader, drawn = trainer.experiences[0].reader, []
    sample = reader.sample
    reader.sample = lambda numbers: drawn.append(sample(numbers)) or drawn[-1]
    state = trainer.states[0]
    networks = [
        Plain(trainer.learner, agent, state[name]) for name in ("weights", "target")
    ]

    (metrics,) = trainer.learn()

    expected = plain_dqn_loss(reader, drawn[0], *networks, burn_in=2)
    assert metrics["loss"] == pytest.approx(expected, rel=1e-4)


@torch.no_grad()
def plain_ppo_loss(reader, first, plain, settings):
    """Return the loss over all transitions of a round, in sequences of `LENGTH`."""
    steps = {}
    for number in np.sort(reader.closed_since(first)).tolist():
        turn, world = divmod(number, WORLDS)
        closes = int(reader.closes(np.array([number]))[0])
        value = plain.policy(reader, turn, world, stored(reader, turn, world))[1]
        after = plain.policy(reader, closes, world, stored(reader, closes, world))[1]
        reward, discount = (
            each[0] for each in reader.outcomes(np.array([turn]), np.array([world]))
        )
        error = float(reward + discount * after - value)
        steps[turn, world] = SimpleNamespace(
            closes=closes, value=float(value), raw=error, decay=discount * settings.gae
        )
    for (_, world), step in sorted(steps.items(), reverse=True):
        if (step.closes, world) in steps:
            step.raw += step.decay * steps[step.closes, world].raw
    raws = np.array([step.raw for step in steps.values()])
    total = 0.0
    for world in range(WORLDS):
        turns = sorted(turn for turn, where in steps if where == world)
        for row, turn in enumerate(turns):
            if row % LENGTH == 0:
                hidden = stored(reader, turn, world)
            elif episode_start(reader, turn, world) > turns[row - 1]:
                hidden = torch.zeros(16)
            log_probs, value, hidden = plain.policy(reader, turn, world, hidden)
            step = steps[turn, world]
            advantage = (step.raw - raws.mean()) / (raws.std() + SMALLEST_STD)
            old = np.log(entry(reader, "probability", turn, world))
            ratio = float((log_probs[entry(reader, "action", turn, world)] - old).exp())
            clipped = np.clip(ratio, 1 - settings.clip, 1 + settings.clip)
            total -= min(ratio * advantage, clipped * advantage)
            total += settings.entropy * float((log_probs.exp() * log_probs).sum())
            total += settings.value * (step.value + step.raw - float(value)) ** 2
    return total / len(steps)


def test_the_loss_of_a_round_is_that_of_plain_loops():
    agent = agent_of(
        ppo={"passes": 1, "minibatches": 1}, recurrent={"sequence": LENGTH, "burn_in": 2}
    )
    trainer = GroupTrainer(RECURRENT_PPO, [agent], data_seeds=[4])
    trainer.train(rounds=2)
    experience = trainer.experiences[0]
    experience.play_round()
    plain = Plain(trainer.learner, agent, trainer.states[0]["weights"])

    (metrics,) = trainer.learn()

    expected = plain_ppo_loss(
        experience.reader, experience.first, plain, agent.settings.ppo
    )
    assert metrics["loss"] == pytest.approx(expected, rel=1e-3)


# Refusals.


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
    trainer = GroupTrainer(RECURRENT_DQN, [agent])

    trainer.train(rounds=1)

    reader, (state,) = trainer.experiences[0].reader, trainer.states
    sequences = Timeline(reader).read(reader.usable, 8, 4)
    learned = sequences.trained.any(axis=1)
    leaves = state["priorities"].reshape(-1, WORLDS)[reader.opening(reader.usable)]
    assert (~learned).sum() > 3
    assert (leaves[~learned] == 1.0).all()  # the initial priority
    assert (leaves[learned] != 1.0).mean() > 0.9
