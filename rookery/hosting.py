"""A worker: hosts the learners of some agents. Knows rows and states, and no game."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rookery.borders import Borders
from rookery.briefs import Brief
from rookery.company import Member, assemble
from rookery.learner import Learner
from rookery.memory.arena import Arena
from rookery.memory.status import Status
from rookery.memory.timing import time_protocol
from rookery.stopping import StopFlag
from rookery.threads import use_one_thread


def learner_of(
    brief: Brief,
    members: Sequence[Member],
    arena: Arena,
    hosted: Collection[int],
    status: Status | None = None,
    stop: StopFlag | None = None,
) -> Learner:
    """Return the learner of some agents; those of one group are one computation."""
    groups = [
        [members[i] for i in group if i in hosted and members[i].learns]
        for group in brief.groups
    ]
    borders = borders_of(brief, members, arena, status)
    return Learner(
        [group for group in groups if group],
        arena,
        borders,
        brief.config.seed,
        brief.config.turns_per_round,
        stop,
        status,
    )


def borders_of(
    brief: Brief, members: Sequence[Member], arena: Arena, status: Status | None = None
) -> Borders:
    """Return when rounds start, for a company."""
    learning = [member.id for member in members if member.learns]
    return Borders(brief.config, arena.words, learning, status)


def learn(data: Mapping[str, Any], memory: Mapping[str, Any]) -> None:
    """Be a worker: learn all rounds that are left."""
    use_one_thread()
    arena, brief = Arena.attach(memory), Brief.from_json(data)
    members = assemble(brief.config, brief.agents)
    status = Status(arena.words, brief.role)
    if brief.timed:
        time_protocol(status)
    learner = learner_of(brief, members, arena, brief.hosted, status)
    status.beat()
    borders_of(brief, members, arena, status).await_begin(brief.generation)
    for number in range(learner.begin() + 1, brief.config.rounds + 1):
        learner.learn_round(number)
        status.beat()
