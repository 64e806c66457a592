"""How fast agents learn: stacked updates compared with a plain loop, on one core.

Both use IQN, learn from the same random play and draw their own batches. Useful operations
are those of the algorithm's matrix products, by formula and without padding; their rate is
compared with the rate of matrix products on the same machine, measured in the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import torch

from rookery.algorithms.base import Agent, Algorithm
from rookery.algorithms.iqn import IQN
from rookery.algorithms.kernels.cosines import COSINES
from rookery.bench.collect import configured, first_actor, network_settings
from rookery.bench.measure import Report, alternate, rate
from rookery.bench.plain_iqn import PlainAgent, PlainReplay
from rookery.config.agent import AgentSettings
from rookery.learner.learner import reader_of
from rookery.replay.rows import Rows
from rookery.specs import AgentSpec
from rookery.training.training import Training

SQUARE = 512
ENOUGH_OPERATIONS = 2 * 10**10
"""Per measurement of a matrix product: about a quarter of a second."""


@dataclass(frozen=True)
class Case:
    """A group of equal agents."""

    agents: int
    width: int
    quantiles: int
    updates: int
    """Updates of every agent in one measurement."""

    def __str__(self) -> str:
        plural = "s" if self.quantiles > 1 else ""
        return f"{self.agents} agents, {self.width} wide, {self.quantiles} quantile{plural}"


@dataclass(frozen=True)
class Sizes:
    """The cases, and the size of the measurements."""

    cases: tuple[Case, ...] = (Case(3, 250, 12, 15), Case(8, 64, 1, 60))
    frames: int = 5
    batch: int = 64
    worlds: int = 16
    turns: int = 100
    """Turns of an episode."""
    episodes: int = 8
    """Episodes to learn from, in every world."""
    operations: int = ENOUGH_OPERATIONS
    repeats: int = 5


FULL = Sizes()


def run(progress: Callable[[str], None], sizes: Sizes = FULL) -> Report:
    """Measure updates of large and small networks, noisy and epsilon-greedy."""
    report = Report()
    for case in sizes.cases:
        progress(f"{case}: random play")
        experience = Experience(sizes, case)
        for exploring, noisy in (("noisy", True), ("epsilon-greedy", False)):
            progress(f"{case}, {exploring}: updates")
            _measure(report, sizes, case, noisy, f"{case}, {exploring}", experience)
        experience.close()
    return report


def _measure(
    report: Report, sizes: Sizes, case: Case, noisy: bool, name: str, experience: Experience
) -> None:
    settings = _settings(sizes, case, noisy)
    ours = Stacked(experience.spec, experience.rows, experience.turns, settings)
    plain = Plain(experience, settings)
    amount = case.updates * case.agents
    machine = _products(settings, experience.inputs, sizes.operations)
    rates = alternate(
        {
            "ours": lambda: rate(ours.learn, amount),
            "plain": lambda: rate(plain.learn, amount),
            **machine,
        },
        sizes.repeats,
    )
    best = max(rates[product] for product in machine)
    useful = useful_operations(settings, experience.inputs, experience.spec.num_actions)
    report.ratios[f"update, {name}: ours / plain"] = rates["ours"] / rates["plain"]
    for side in ("ours", "plain"):
        share = rates[side] * useful / best
        report.ratios[f"update, {name}: {side} / matrix-product rate"] = share
        report.add_metric(f"{name}, {side}", rates[side], "agent-updates/s")
    report.add_metric(f"{name}: useful operations", useful / 1e6, "million per update")
    for product in machine:
        report.add_metric(f"{name}: product {product}", rates[product] / 1e9, "GFLOPS")


def useful_operations(settings: AgentSettings, inputs: int, actions: int) -> int:
    """Return the floating-point operations of one agent's update, in matrix products.

    Forward: the network on the observations, the target network on the next observations
    and, with double learning, the network on these, too. Backward once; the first layers
    need gradients of their weights only.
    """
    width, batch = settings.network.width, settings.batch_size
    outputs = actions + int(settings.iqn.dueling)

    def join(quantiles: int) -> int:
        return 2 * batch * quantiles * width * (width + outputs)

    quantiles, fixed = settings.network.quantiles, settings.iqn.acting_quantiles
    first = 2 * batch * (inputs + quantiles * COSINES) * width
    forward = first + join(quantiles)
    backward = first + 2 * join(quantiles)
    selection = 2 * (batch * inputs + fixed * COSINES) * width + join(fixed)
    return 2 * forward + backward + (selection if settings.iqn.double else 0)


def _products(
    settings: AgentSettings, inputs: int, operations: int
) -> dict[str, Callable[[], float]]:
    """Return measurements of the machine: large products, and those of the network."""
    width, batch = settings.network.width, settings.batch_size
    rows = batch * settings.network.quantiles
    shapes = (
        (SQUARE, SQUARE, SQUARE),
        (batch, inputs, width),
        (rows, COSINES, width),
        (rows, width, width),
    )
    return {
        " × ".join(map(str, shape)): _product_rate(*shape, operations) for shape in shapes
    }


def _product_rate(m: int, k: int, n: int, operations: int) -> Callable[[], float]:
    """Return a function that measures the operations per second of one shape."""
    left, right, product = torch.rand(m, k), torch.rand(k, n), torch.empty(m, n)
    times = max(1, operations // (2 * m * k * n))

    def work() -> None:
        for _ in range(times):
            torch.mm(left, right, out=product)

    return lambda: rate(work, times * 2 * m * k * n)


class Experience:
    """Rows of random play, the same for both sides."""

    def __init__(self, sizes: Sizes, case: Case) -> None:
        torch.set_num_threads(1)
        entry, config = configured(
            sizes.worlds,
            case.agents,
            **network_settings(16, 1, sizes.frames, noisy=False),
            game__turns=sizes.turns,
            turns_per_round=sizes.turns + 1,  # so that a round is one episode
            epsilon__start=1.0,
            epsilon__end=1.0,
            batch_size=1,
            replay__capacity=sizes.worlds * (sizes.turns + 1) * sizes.episodes,
            replay__warmup=1,
        )
        self._training = Training.build(entry, config)
        actor_process, weights = first_actor(self._training)
        for number in range(1, sizes.episodes + 1):
            actor_process.actor.play_round(number, weights)
            actor_process.complete(number)
        self.turns = actor_process.actor.state.turn
        self.agents: Sequence[Agent] = self._training.agents
        self.rows = [self._training.arena.rows(agent.id) for agent in self.agents]
        self.spec: AgentSpec = self.agents[0].spec
        (part,) = self.spec.parts.values()
        self.inputs = sizes.frames * prod(part.shape)

    def close(self) -> None:
        """Free the memory."""
        self._training.close()


class Stacked:
    """All agents in one stacked computation."""

    def __init__(
        self,
        spec: AgentSpec,
        rows: Sequence[Rows],
        turns: int,
        settings: AgentSettings,
        algorithm: Algorithm = IQN,
    ) -> None:
        agents = [
            Agent(i, spec, settings, algorithm, learns=True) for i in range(len(rows))
        ]
        self._readers = [
            reader_of(agent, agent_rows, turns)
            for agent, agent_rows in zip(agents, rows, strict=True)
        ]
        for reader in self._readers:
            reader.advance(turns)
        self._learner, self._round = algorithm.learner(agents, 0), 0
        self._learner.load([self._learner.initial(agent) for agent in agents])
        self.learn()

    def learn(self) -> None:
        """Make the updates of a round."""
        self._round += 1
        self._learner.learn(self._readers, self._round, self._readers[0].boundary)


class Plain:
    """One agent after the other, in a plain loop."""

    def __init__(self, experience: Experience, settings: AgentSettings) -> None:
        self._agents = [
            PlainAgent(experience.spec, settings, i) for i in range(len(experience.rows))
        ]
        self._updates = settings.updates_per_round
        for agent, rows in zip(self._agents, experience.rows, strict=True):
            fill(agent.replay, rows, experience.turns)
        self.learn()

    def learn(self) -> None:
        """Make as many updates as a stacked round."""
        for _ in range(self._updates):
            for agent in self._agents:
                agent.learn()


def fill(replay: PlainReplay, rows: Rows, turns: int) -> None:
    """Copy an agent's rows into a plain replay, one world after the other."""
    columns, (views,) = rows.columns, rows.parts.values()
    for world in range(views.shape[1]):
        for turn in np.arange(turns) % rows.slots:
            age, active = int(columns["age"][turn, world]), columns["active"][turn, world]
            replay.write_observation(views[turn, world], age, active)
            names = ("action", "reward", "terminated", "truncated")
            replay.write_outcome(*(columns[name][turn, world].item() for name in names))


def _settings(sizes: Sizes, case: Case, noisy: bool) -> AgentSettings:
    rows = sizes.worlds * (sizes.turns + 1) * sizes.episodes
    _, config = configured(
        sizes.worlds,
        case.agents,
        **network_settings(case.width, case.quantiles, sizes.frames, noisy),
        batch_size=sizes.batch,
        updates_per_round=case.updates,
        replay__capacity=rows,
        replay__warmup=sizes.batch,
    )
    return config.agent("0")
