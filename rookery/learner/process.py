"""A worker: hosts the learners of some agents. Knows rows and states, and no game."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rookery.algorithms.agents import Member, assemble, learning_ids
from rookery.algorithms.torch_setup import use_one_thread
from rookery.learner.learner import Learner
from rookery.protocol.arena import Arena
from rookery.protocol.process_spec import Brief
from rookery.protocol.schedule import Borders
from rookery.protocol.timing import time_protocol
from rookery.shm.heartbeat import Status


def learner_of(
    brief: Brief,
    members: Sequence[Member],
    arena: Arena,
    hosted: Collection[int],
    status: Status | None = None,
) -> Learner:
    """Return the learner of some agents; those of one group are one computation."""
    groups = [
        [members[i] for i in group if i in hosted and members[i].learns]
        for group in brief.groups
    ]
    borders = Borders(brief.config, arena.words, learning_ids(members), status)
    return Learner(
        [group for group in groups if group],
        arena,
        borders,
        brief.config.seed,
        brief.config.turns_per_round,
        status,
    )


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
    borders = Borders(brief.config, arena.words, learning_ids(members), status)
    borders.await_begin(brief.generation)
    for number in range(learner.begin() + 1, brief.config.rounds + 1):
        learner.learn_round(number)
        status.beat()
