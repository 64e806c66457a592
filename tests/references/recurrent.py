"""The loss of recurrent DQN, one row of a sequence after the other.

Stored hidden states, burn-in and the priority of a sequence: Kapturowski et al. (2019),
R2D2; the unit: Cho et al. (2014). The target of a row is DQN's.
"""

# ruff: noqa: RUF002 (formulas have the letters of the papers)

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rookery.algorithms.base import Agent
from rookery.algorithms.recurrent_dqn import RECURRENT_DQN
from rookery.rng import Purpose, Stream
from tests.references.drawing import Sampler, dqn_parts, draw_group, merge
from tests.references.kinks import relu
from tests.references.networks import (
    Weights,
    action_values,
    dense,
    drawn_noise,
    encode,
    gru_step,
    with_noise,
)
from tests.references.recording import SEED, RecordedGroup
from tests.references.returns import Transition
from tests.references.value_learners import ROUNDS, ValueReference, check_round
from tests.references.values import best, huber, rate

ETA = 0.9
"""η of Kapturowski et al., section 2.3: the weight of a sequence's largest error."""


@dataclass
class Turn:
    """A row of a sequence, with the values of both networks."""

    turn: int
    fresh: bool
    """Whether the hidden state before it is that of the current network."""
    q: Tensor
    q_target: Tensor


class SequenceReference(ValueReference):
    """One agent that learns values from sequences."""

    def take_in(self) -> None:
        """Take in the rows of a round in which it acts or a transition closes."""
        super().take_in()
        oldest = max(0, self.experience.boundary - self.experience.window)
        valued = {(step.closes, step.world) for step in self.usable}
        self.timeline = [
            [
                turn
                for turn in range(oldest, self.experience.boundary)
                if rows[turn].active or (turn, world) in valued
            ]
            for world, rows in enumerate(self.experience.worlds)
        ]

    def is_start(self, index: int, world: int) -> bool:
        """Whether a row is known to be the first of its episode that counts."""
        turns = self.timeline[world]
        age = self.experience.worlds[world][turns[index]].age
        if index == 0:
            return age == 0
        return turns[index - 1] < turns[index] - age

    def unroll(self, step: Transition, theta: Weights, target: Weights) -> list[Turn]:
        """Go through the sequence that begins with a transition."""
        recurrent, world = self.settings.recurrent, step.world
        first = self.timeline[world].index(step.turn)
        states = [self.experience.hidden(*step.row)] * 2
        rows: list[Turn] = []
        turns = self.timeline[world][first : first + recurrent.sequence]
        for row, turn in enumerate(turns):
            starts = self.is_start(first + row, world)
            if starts:
                states = [torch.zeros_like(hidden) for hidden in states]
            fresh = starts or row >= recurrent.burn_in or (row > 0 and rows[-1].fresh)
            q, states[0] = self.forward(theta, turn, world, states[0])
            with torch.no_grad():
                q_target, states[1] = self.forward(target, turn, world, states[1])
            rows.append(Turn(turn, fresh, q, q_target))
        return rows

    def forward(self, w: Weights, turn: int, world: int, hidden: Tensor):
        """Return Q(s, ·) and the next hidden state."""
        x = encode(w, self.experience.obs(turn, world), self.settings.network, relu)
        hidden = gru_step(w, x, hidden)
        x = relu(dense(w, "hidden", hidden))
        return action_values(w, x, self.settings.dqn.dueling), hidden

    def deltas(self, step: Transition, theta: Weights, target: Weights) -> list[Tensor]:
        """Return δ of all rows of a sequence that are learned from.

        Those whose hidden state is fresh, and which close within the sequence.
        """
        rows = {row.turn: row for row in self.unroll(step, theta, target)}
        deltas = []
        for turn, row in rows.items():
            each = self.by_row.get((turn, step.world))
            if row.fresh and each is not None and each.closes in rows:
                y = self.target(each, row, rows[each.closes])
                deltas.append(y - row.q[each.action])
        return deltas

    @torch.no_grad()
    def target(self, step: Transition, row: Turn, after: Turn) -> Tensor:
        """Return r + γ Q⁻(s', a*) − α (V(s) − Q⁻(s, a)), as `values.dqn_target` has it."""
        choosing = after.q if self.settings.dqn.double else after.q_target
        a = best(choosing, self.experience.legal(after.turn, step.world))
        y = self.factor * step.gain + step.gamma * after.q_target[a]
        v = row.q_target[best(row.q_target, self.experience.legal(*step.row))]
        return y - self.settings.dqn.gap * (v - row.q_target[step.action])

    def batch_loss(self, weights: Weights, target: Weights, key):
        """Return the mean over all rows learned from, and the errors of sequences."""
        size, kappa = self.settings.batch_size, self.settings.dqn.threshold
        drawn = Stream(SEED, Purpose.LEARNER).uniform(key, 0, size)[0]
        theta = with_noise(weights, drawn_noise(weights, key, SEED, 0))
        noisy_target = with_noise(target, drawn_noise(target, key, SEED, 1))
        steps, importance = self.draw(drawn)
        total, count = sum(weight.sum() * 0.0 for weight in weights.values()), 0
        errors: list[tuple[Transition, float]] = []
        for step, weight in zip(steps, importance, strict=True):
            deltas = self.deltas(step, theta, noisy_target)
            count += len(deltas)
            for delta in deltas:
                each = weight * rate(delta, self.settings.dqn)
                total = total + each * huber(delta, kappa) / kappa
            sizes = [abs(delta.item()) for delta in deltas]
            if sizes:  # else nothing was learned from it, and its priority stays
                mean = sum(sizes) / len(sizes)
                errors.append((step, ETA * max(sizes) + (1 - ETA) * mean))
        if self.priorities is not None:
            rows = [step.row for step, _ in errors]
            self.priorities.update(rows, [error for _, error in errors])
        return total / max(count, 1), [error for _, error in errors]


def compare(agents: list[Agent], data_seed: int) -> None:
    """Train a group and compare all its updates with the reference."""
    group = RecordedGroup(RECURRENT_DQN, agents, data_seed)
    references = [
        SequenceReference(agent, experience, agent.settings.dqn, None)
        for agent, experience in zip(agents, group.experiences, strict=True)
    ]
    for _ in range(ROUNDS):
        check_round(group.train(), references, errors=False)


def compare_recurrent_dqn(case: int, **settings) -> None:
    """Compare a drawn group.

    With priorities there is no burn-in here, so that every sequence is learned from.
    """
    sampler = Sampler(6, case)
    kind = sampler.of("uniform", "prioritised")
    burn_in = sampler.whole(0, 3) if kind == "uniform" else 0
    n_step = sampler.whole(1, 2)
    drawn = {
        "dqn": {**dqn_parts(sampler), "retrace": None},
        "n_step": n_step,
        "replay": {"kind": kind},
        "recurrent": {
            "width": 16,
            "sequence": burn_in + n_step + sampler.whole(1, 4),
            "burn_in": burn_in,
        },
    }
    compare(draw_group(sampler, **merge(drawn, settings)), case)
