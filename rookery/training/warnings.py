"""Settings that are legal but unwise: a warning each, with the reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rookery.algorithms.base import Agent
from rookery.config.run import Config
from rookery.training.autoscale import cores


def advise(config: Config, agents: Sequence[Agent]) -> list[str]:
    """Return everything a person should look at before training, one line each."""
    found: list[str] = []
    for agent in agents:
        if agent.learns:
            for line in _of_agent(config, agent):
                found.append(f"agent '{agent.id}': {line}")
    general = list(_processes(config, sum(agent.learns for agent in agents)))
    return [*general, *dict.fromkeys(_merged(found, agents))]


def _processes(config: Config, learning: int) -> Iterator[str]:
    if config.schedule == "async":
        yield (
            "schedule is async: what comes out depends on timing, and cannot be repeated "
            "bit for bit."
        )
    if config.workers == "auto":
        return
    if config.workers > max(learning, 1):
        yield (
            f"workers is {config.workers}, but only {learning} agents learn: the others "
            "would have nothing to do, and are not started."
        )
    if min(config.workers, learning) > cores():
        yield (
            f"workers is {config.workers}, but there are {cores()} cores: more processes "
            "than cores take turns, which is no faster."
        )


def _merged(lines: Sequence[str], agents: Sequence[Agent]) -> Iterator[str]:
    """Say once what holds for every learning agent."""
    learning = [agent.id for agent in agents if agent.learns]
    texts = [line.split(": ", 1)[1] for line in lines]
    for line, text in zip(lines, texts, strict=True):
        yield text if texts.count(text) == len(learning) else line


def _of_agent(config: Config, agent: Agent) -> Iterator[str]:
    yield from _learning(agent)
    if not agent.on_policy:  # the others have no replay to draw from
        yield from _updates(config, agent)
        yield from _replay(config, agent)


def _learning(agent: Agent) -> Iterator[str]:
    settings = agent.settings
    if settings.learning_rate > 0.01:
        yield (
            f"learning_rate {settings.learning_rate:g} is high for Adam; above 0.01 values "
            "usually diverge."
        )
    if agent.hidden and settings.frames > 1:
        yield (
            f"frames is {settings.frames}, but a recurrent agent carries along what it "
            "saw: frames=1 is enough, and quicker."
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
            f"the target follows by {settings.target.rate:g} every "
            f"{settings.target.every} updates: it hardly differs from the network, and "
            "learning may not settle."
        )
    learned = settings.updates_per_round * settings.batch_size
    times = learned / (config.turns_per_round * config.worlds)
    if times > 32:
        yield f"every step is learned from about {times:.0f} times: it may overfit."


def _replay(config: Config, agent: Agent) -> Iterator[str]:
    settings = agent.settings
    replay, epsilon = settings.replay, settings.epsilon
    steps = config.rounds * config.turns_per_round * config.worlds
    if epsilon.steps > steps and epsilon.end < epsilon.start:
        yield (
            f"epsilon.steps is {epsilon.steps}, but the whole run has about "
            f"{steps} steps: it never stops exploring."
        )
    if epsilon.temperature and not epsilon.start + epsilon.end:
        yield (
            f"epsilon.temperature is {epsilon.temperature:g}, but epsilon.start and "
            "epsilon.end are 0, and it falls as epsilon does: nothing is ever tried."
        )
    if max(replay.warmup, settings.batch_size) > steps:
        yield (
            f"replay.warmup is {replay.warmup}, but the whole run has about {steps} steps: "
            "it will not learn."
        )
    per_round = config.turns_per_round * config.worlds
    if replay.capacity < max(replay.warmup, per_round):
        yield (
            f"replay.capacity is {replay.capacity}, less than what is played before "
            f"learning starts ({max(replay.warmup, per_round)}): the first experience is "
            "lost unused."
        )
