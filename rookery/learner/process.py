"""A worker's process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.algorithms.agents import build_agents
from rookery.algorithms.torch_setup import use_one_thread
from rookery.learner.learner import LearnerWorker
from rookery.protocol.arena import Arena
from rookery.protocol.process_spec import ProcessSpec
from rookery.protocol.timing import time_protocol
from rookery.shm.heartbeat import Heartbeat


def learn(data: Mapping[str, Any], memory: Mapping[str, Any]) -> None:
    """Run a worker's process: learn all remaining rounds."""
    use_one_thread()
    arena, process_spec = Arena.attach(memory), ProcessSpec.from_json(data)
    agents = build_agents(process_spec.config, process_spec.agents)
    heartbeat = Heartbeat(arena.counters, process_spec.role)
    if process_spec.timed:
        time_protocol(heartbeat)
    worker = LearnerWorker(process_spec, agents, arena, heartbeat)
    heartbeat.beat()
    worker.schedule.await_begin(process_spec.generation)
    for number in range(worker.begin() + 1, process_spec.config.rounds + 1):
        worker.learn_round(number)
        heartbeat.beat()
