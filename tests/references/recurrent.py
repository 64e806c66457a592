"""The loss of recurrent DQN, one row of a sequence after the other.

Stored hidden states, burn-in and the priority of a sequence: Kapturowski et al. (2019),
R2D2; the unit: Cho et al. (2014). What a row is compared with is DQN's.
"""

# ruff: noqa: RUF002 (formulas have the letters of the papers)

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rookery.algorithms.base import Agent
from rookery.algorithms.recurrent_dqn import RECURRENT_DQN
from rookery.rng import Purpose, Stream
from tests.references.drawing import Chance, draw_group, merge, value_parts
from tests.references.kinks import relu
from tests.references.lives import Life
from tests.references.networks import (
    Weights,
    carry,
    dense,
    drawn_noise,
    last,
    read,
    with_noise,
)
from tests.references.returns import Transition
from tests.references.value_learners import ROUNDS, ValueReference, check_round
from tests.references.values import best, huber
from tests.references.watching import SEED, Watched

ETA = 0.9
"""η of Kapturowski et al., section 2.3: what the largest error of a sequence counts."""


@dataclass
class Turn:
    """A row of a sequence, with what both networks say of it."""

    turn: int
    fresh: bool
    """Whether what is carried into it is the network's own of now."""
    q: Tensor
    q_target: Tensor


class SequenceReference(ValueReference):
    """One agent that learns values from sequences."""

    def take_in(self) -> None:
        """Take in the rows of a round; those count in which it acts or is valued."""
        super().take_in()
        oldest = max(0, self.life.boundary - self.life.window)
        valued = {(step.closes, step.world) for step in self.usable}
        self.timeline = [
            [
                turn
                for turn in range(oldest, self.life.boundary)
                if rows[turn].active or (turn, world) in valued
            ]
            for world, rows in enumerate(self.life.worlds)
        ]

    def is_start(self, place: int, world: int) -> bool:
        """Whether a row is known to be the first of its episode that counts."""
        turns = self.timeline[world]
        age = self.life.worlds[world][turns[place]].age
        if place == 0:
            return age == 0
        return turns[place - 1] < turns[place] - age

    def unroll(self, step: Transition, theta: Weights, target: Weights) -> list[Turn]:
        """Go through the sequence that begins with a step."""
        chosen, world = self.settings.recurrent, step.world
        first = self.timeline[world].index(step.turn)
        both = [self.life.hidden(*step.place)] * 2
        found: list[Turn] = []
        turns = self.timeline[world][first : first + chosen.sequence]
        for row, turn in enumerate(turns):
            starts = self.is_start(first + row, world)
            if starts:
                both = [torch.zeros_like(hidden) for hidden in both]
            fresh = starts or row >= chosen.burn_in or (row > 0 and found[-1].fresh)
            q, both[0] = self.look(theta, turn, world, both[0])
            with torch.no_grad():
                q_target, both[1] = self.look(target, turn, world, both[1])
            found.append(Turn(turn, fresh, q, q_target))
        return found

    def look(self, w: Weights, turn: int, world: int, hidden: Tensor):
        """Return Q(s, ·) and what is carried on."""
        x = read(w, self.life.seen(turn, world), self.settings.network, relu)
        hidden = carry(w, x, hidden)
        x = relu(dense(w, "hidden", hidden))
        return last(w, x, self.settings.dqn.dueling), hidden

    def deltas(self, step: Transition, theta: Weights, target: Weights) -> list[Tensor]:
        """Return δ of all rows of a sequence that are learned from.

        Those whose hidden state is fresh, and which close within the sequence.
        """
        rows = {row.turn: row for row in self.unroll(step, theta, target)}
        found = []
        for turn, row in rows.items():
            one = self.by_place.get((turn, step.world))
            if row.fresh and one is not None and one.closes in rows:
                found.append(self.target(one, row, rows[one.closes]) - row.q[one.action])
        return found

    @torch.no_grad()
    def target(self, step: Transition, row: Turn, after: Turn) -> Tensor:
        """Return r + γ Q⁻(s', a*) − α (V(s) − Q⁻(s, a)), as `values.dqn_target` has it."""
        likes = after.q if self.settings.dqn.double else after.q_target
        a = best(likes, self.life.legal(after.turn, step.world))
        y = self.factor * step.gain + step.gamma * after.q_target[a]
        v = row.q_target[best(row.q_target, self.life.legal(*step.place))]
        return y - self.settings.dqn.gap * (v - row.q_target[step.action])

    def batch_loss(self, weights: Weights, target: Weights, place):
        """Return the mean over all rows learned from, and the errors of sequences."""
        size, kappa = self.settings.batch_size, self.settings.dqn.threshold
        drawn = Stream(SEED, Purpose.LEARNER).uniform(place, 0, size)[0]
        theta = with_noise(weights, drawn_noise(weights, place, SEED, 0))
        other = with_noise(target, drawn_noise(target, place, SEED, 1))
        steps, importance = self.draw(drawn)
        total, count = sum(weight.sum() * 0.0 for weight in weights.values()), 0
        errors: list[tuple[Transition, float]] = []
        for step, weight in zip(steps, importance, strict=True):
            deltas = self.deltas(step, theta, other)
            count += len(deltas)
            for delta in deltas:
                total = total + weight * huber(delta, kappa) / kappa
            sizes = [abs(delta.item()) for delta in deltas]
            if sizes:  # else nothing is known of it, and its priority stays
                mean = sum(sizes) / len(sizes)
                errors.append((step, ETA * max(sizes) + (1 - ETA) * mean))
        if self.priorities is not None:
            places, found = [s.place for s, _ in errors], [e for _, e in errors]
            self.priorities.update(places, found)
        return total / max(count, 1), [error for _, error in errors]


def compare(agents: list[Agent], luck: int) -> None:
    """Train a group and compare all it does with the reference."""
    group = Watched(RECURRENT_DQN, agents, luck)
    references = [reference_of(*both) for both in zip(agents, group.lives, strict=True)]
    for _ in range(ROUNDS):
        check_round(group.train(), references, errors=False)


def reference_of(agent: Agent, life: Life) -> SequenceReference:
    return SequenceReference(agent, life, agent.settings.dqn, None)


def compare_recurrent_dqn(case: int, **chosen) -> None:
    """Compare a drawn group.

    With priorities there is no burn-in here, so that every sequence is learned from.
    """
    chance = Chance(6, case)
    kind = chance.of("uniform", "prioritised")
    burn_in = chance.whole(0, 3) if kind == "uniform" else 0
    n_step = chance.whole(1, 2)
    drawn = {
        "dqn": {**value_parts(chance), "retrace": None},
        "n_step": n_step,
        "replay": {"kind": kind},
        "recurrent": {
            "width": 16,
            "sequence": burn_in + n_step + chance.whole(1, 4),
            "burn_in": burn_in,
        },
    }
    compare(draw_group(chance, **merge(drawn, chosen)), case)
