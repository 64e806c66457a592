"""The actor's process: the game, the actor that plays it, and evaluations in between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.actor.actor import Actor
from rookery.actor.evaluations import Evaluations
from rookery.actor.parts import RunParts
from rookery.actor.policies import PolicyRunner, PublishedWeights
from rookery.algorithms.agents import build_agents, learning_ids
from rookery.algorithms.torch_setup import use_one_thread
from rookery.games.registry import find
from rookery.protocol.arena import Arena
from rookery.protocol.process_spec import ProcessSpec, game_name
from rookery.protocol.schedule import RoundSchedule
from rookery.protocol.timing import time_protocol
from rookery.shm.heartbeat import Heartbeat


class ActorProcess:
    """What the actor's process does, also when it is part of the main process."""

    def __init__(self, parts: RunParts, heartbeat: Heartbeat | None = None) -> None:
        config, agents, arena = parts.process_spec.config, parts.agents, parts.arena
        self._heartbeat = heartbeat or Heartbeat()
        self.game = parts.entry.build_guarded(
            config.game.settings, config.worlds, config.seed
        )
        scripted = [agent.player for agent in agents]
        groups = [[agents[i] for i in group] for group in parts.process_spec.groups]
        self.policies = PolicyRunner(groups, config.seed, config.worlds)
        self.actor = Actor(
            self.game,
            agents,
            parts.entry.seat_players(self.game, scripted, config.seed),
            arena,
            self.policies,
            config.turns_per_round,
            self._heartbeat,
        )
        self._schedule, self._rounds = parts.schedule, config.rounds
        self._is_exact = config.schedule != "async"
        self._published = PublishedWeights(arena, agents)
        self._evaluations = Evaluations(parts, self._published, self._heartbeat.beat)

    def play_round(self, number: int) -> None:
        """Wait until a round may start, run evaluations that are due, and play it."""
        self._schedule.await_playing(number)
        self._evaluate(number - 1)
        with self._heartbeat.spending("work"):
            if self._is_exact:
                self.actor.play_round(number, self._published.exact(number - 1))
            else:
                weights = self._published.newest()
                self.actor.play_round(number, weights, self._published.newer)

    def finish(self) -> None:
        """Run the evaluations of the last boundary."""
        self._evaluate(self._rounds)

    def _evaluate(self, boundary: int) -> None:
        if self._evaluations.are_due(boundary):
            self._schedule.await_end(boundary)
            self._evaluations.run(boundary, self.actor.state.steps)
        self._evaluations.mark_done(boundary)

    def close(self) -> None:
        """Close the game."""
        self.game.close()


def play(data: Mapping[str, Any], memory: Mapping[str, Any]) -> None:
    """Run the actor's process: play all remaining rounds."""
    use_one_thread()
    entry = find(game_name(data))
    arena, process_spec = Arena.attach(memory), ProcessSpec.from_json(data, entry.settings)
    agents = build_agents(process_spec.config, process_spec.agents)
    heartbeat = Heartbeat(arena.counters, process_spec.role)
    if process_spec.timed:
        time_protocol(heartbeat)
    schedule = RoundSchedule(
        process_spec.config, arena.counters, learning_ids(agents), heartbeat
    )
    parts = RunParts(entry, process_spec, agents, arena, schedule)
    actor_process = ActorProcess(parts, heartbeat)
    heartbeat.beat()
    schedule.await_begin(process_spec.generation)
    for number in range(actor_process.actor.begin() + 1, process_spec.config.rounds + 1):
        actor_process.play_round(number)
    actor_process.finish()
