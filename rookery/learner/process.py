"""A worker: hosts the learners of some agents. Knows rows and states, and no game."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from rookery.algorithms.agents import build_agents, learning_ids
from rookery.algorithms.base import Agent
from rookery.algorithms.torch_setup import use_one_thread
from rookery.learner.learner import LearnerWorker
from rookery.protocol.arena import Arena
from rookery.protocol.process_spec import ProcessSpec
from rookery.protocol.schedule import RoundSchedule
from rookery.protocol.timing import time_protocol
from rookery.shm.heartbeat import Heartbeat


def worker_of(
    process_spec: ProcessSpec,
    agents: Sequence[Agent],
    arena: Arena,
    hosted: Collection[int],
    heartbeat: Heartbeat | None = None,
) -> LearnerWorker:
    """Return the learner of some agents; those of one group are one computation."""
    groups = [
        [agents[i] for i in group if i in hosted and agents[i].learns]
        for group in process_spec.groups
    ]
    schedule = RoundSchedule(
        process_spec.config, arena.counters, learning_ids(agents), heartbeat
    )
    return LearnerWorker(
        [group for group in groups if group],
        arena,
        schedule,
        process_spec.config.seed,
        process_spec.config.turns_per_round,
        heartbeat,
    )


def learn(data: Mapping[str, Any], memory: Mapping[str, Any]) -> None:
    """Be a worker: learn all rounds that are left."""
    use_one_thread()
    arena, process_spec = Arena.attach(memory), ProcessSpec.from_json(data)
    agents = build_agents(process_spec.config, process_spec.agents)
    heartbeat = Heartbeat(arena.counters, process_spec.role)
    if process_spec.timed:
        time_protocol(heartbeat)
    worker = worker_of(process_spec, agents, arena, process_spec.hosted, heartbeat)
    heartbeat.beat()
    schedule = RoundSchedule(
        process_spec.config, arena.counters, learning_ids(agents), heartbeat
    )
    schedule.await_begin(process_spec.generation)
    for number in range(worker.begin() + 1, process_spec.config.rounds + 1):
        worker.learn_round(number)
        heartbeat.beat()
