"""Warnings about settings that are legal but probably not what the user wants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rookery.algorithms.base import Agent
from rookery.config.run import Config
from rookery.training.autoscale import cores


def advise(config: Config, agents: Sequence[Agent]) -> list[str]:
    """Return all warnings about a run's settings, one line each."""
    learning = [agent for agent in agents if agent.learns]
    per_agent = [
        (agent.id, line) for agent in learning for line in _of_agent(config, agent)
    ]
    lines = [line for _, line in per_agent]
    # A warning that concerns all learning agents is given once.
    merged = [
        line if lines.count(line) == len(learning) else f"agent '{agent}': {line}"
        for agent, line in per_agent
    ]
    return [*_processes(config, len(learning)), *dict.fromkeys(merged)]


def _processes(config: Config, learning: int) -> Iterator[str]:
    if config.schedule == "async":
        yield (
            "schedule is async: results depend on timing, and cannot be reproduced bit for "
            "bit."
        )
    yield from _actors(config)
    if config.workers == "auto":
        return
    if config.workers > max(learning, 1):
        yield (
            f"workers is {config.workers}, but only {learning} agents learn: the other "
            "workers would have nothing to do, and are not started."
        )
    if min(config.workers, learning) > cores():
        yield (
            f"workers is {config.workers}, but there are {cores()} cores: more workers "
            "than cores share the cores, and are no faster."
        )


def _actors(config: Config) -> Iterator[str]:
    if config.actors == "auto" or config.actors == 1:
        return
    if config.workers == 0:
        yield (
            f"actors is {config.actors}, but workers is 0: one process plays the shares of "
            "all actors in turn, which is no faster."
        )
    elif config.actors > cores():
        yield (
            f"actors is {config.actors}, but there are {cores()} cores: more actors than "
            "cores share the cores, and are no faster."
        )


def _of_agent(config: Config, agent: Agent) -> Iterator[str]:
    yield from _learning(agent)
    if not agent.on_policy:  # on-policy agents draw no batches from a replay
        yield from _updates(config, agent)
        yield from _replay(config, agent)


def _learning(agent: Agent) -> Iterator[str]:
    settings = agent.settings
    if settings.learning_rate > 0.01:
        yield (
            f"learning_rate {settings.learning_rate:g} is high for Adam; above 0.01, value "
            "estimates usually diverge."
        )
    if agent.hidden and settings.frames > 1:
        yield (
            f"frames is {settings.frames}, but a recurrent agent remembers earlier "
            "observations: frames=1 is enough, and faster."
        )
    if settings.discount == 1.0:
        yield "discount is 1: values of long episodes can grow without bound."


def _updates(config: Config, agent: Agent) -> Iterator[str]:
    settings = agent.settings
    if settings.batch_size < 8:
        yield f"batch_size {settings.batch_size} is small: gradients will be mostly noise."
    if settings.updates_per_round == 0:
        yield "updates_per_round is 0: it will not learn."
    if settings.target.rate > 0.5 and settings.target.every < 10:
        yield (
            f"target.rate is {settings.target.rate:g} and target.every is "
            f"{settings.target.every}: the target network hardly differs from the online "
            "network, and learning may be unstable."
        )
    drawn = settings.updates_per_round * settings.batch_size
    times = drawn / (config.turns_per_round * config.worlds)
    if times > 32:
        yield f"every transition is drawn about {times:.0f} times: it may overfit."


def _replay(config: Config, agent: Agent) -> Iterator[str]:
    settings = agent.settings
    replay, epsilon = settings.replay, settings.epsilon
    steps = config.rounds * config.turns_per_round * config.worlds
    if epsilon.steps > steps and epsilon.end < epsilon.start:
        yield (
            f"epsilon.steps is {epsilon.steps}, but the whole run has about {steps} steps: "
            "exploration does not get down to epsilon.end."
        )
    if epsilon.temperature and not epsilon.start + epsilon.end:
        yield (
            f"epsilon.temperature is {epsilon.temperature:g}, but it is scaled by epsilon, "
            "and epsilon.start and epsilon.end are 0: it never explores."
        )
    if max(replay.warmup, settings.batch_size) > steps:
        yield (
            f"replay.warmup is {replay.warmup}, but the whole run has about {steps} steps: "
            "it will not learn."
        )
    per_round = config.turns_per_round * config.worlds
    if replay.capacity < max(replay.warmup, per_round):
        yield (
            f"replay.capacity is {replay.capacity}, less than the steps before learning "
            f"starts ({max(replay.warmup, per_round)}): the first experience is "
            "overwritten unused."
        )
