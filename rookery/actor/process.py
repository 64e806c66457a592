"""An actor's process: the game, the actor that plays it, and evaluations in between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rookery.actor.actor import Actor
from rookery.actor.boundary import Boundary
from rookery.actor.evaluations import Evaluations
from rookery.actor.parts import RunParts
from rookery.actor.policies import PolicyRunner, PublishedWeights
from rookery.actor.state import BoundaryState
from rookery.algorithms.agents import build_agents, learning_ids
from rookery.algorithms.torch_setup import use_one_thread
from rookery.games.registry import find
from rookery.protocol.arena import Arena
from rookery.protocol.process_spec import ProcessSpec, game_name
from rookery.protocol.schedule import RoundSchedule
from rookery.protocol.shares import shares_of
from rookery.protocol.timing import time_protocol
from rookery.shm.heartbeat import Heartbeat


class ActorProcess:
    """What an actor's process does, also when it is part of the main process.

    Actor 0 also completes the boundaries, and runs the evaluations.
    """

    def __init__(
        self, parts: RunParts, heartbeat: Heartbeat | None = None, share: int = 0
    ) -> None:
        config, agents, arena = parts.process_spec.config, parts.agents, parts.arena
        shares = shares_of(config.worlds, parts.process_spec.actors)
        own, turns = shares[share], config.turns_per_round
        self._heartbeat = heartbeat or Heartbeat()
        self.game = parts.entry.build_guarded(
            config.game.settings, own.worlds, config.seed, own.first_world
        )
        scripted = [agent.player for agent in agents]
        players = parts.entry.seat_players(
            self.game, scripted, config.seed, own.first_world
        )
        groups = [[agents[i] for i in group] for group in parts.process_spec.groups]
        self.policies = PolicyRunner(groups, config.seed, own.worlds, own.first_world)
        self.actor = Actor(
            self.game, agents, players, arena, own, self.policies, turns, self._heartbeat
        )
        self._arena, self._shares, self._is_first = arena, len(shares), share == 0
        self._boundary = Boundary(agents, arena, shares, turns, self._heartbeat)
        self._schedule, self._rounds = parts.schedule, config.rounds
        self._is_exact = config.schedule != "async"
        self._published = PublishedWeights(arena, agents)
        self._evaluations = Evaluations(parts, self._published, self._heartbeat.beat)

    def begin(self) -> int:
        """Restore the newest snapshot of the share, and return its boundary."""
        return self.actor.begin()

    def play_round(self, number: int) -> None:
        """Wait until a round may start, run evaluations that are due, and play it."""
        self._schedule.await_playing(number)
        self._evaluate(number - 1)
        with self._heartbeat.spending("work"):
            weights = (
                self._published.exact(number - 1)
                if self._is_exact
                else self._published.newest()
            )
            refresh = None if self._is_exact else self._published.newer
            self.actor.play_round(number, weights, refresh)

    def complete(self, boundary: int) -> None:
        """Complete a boundary as actor 0, once all actors have reached it."""
        if not self._is_first or self._arena.snapshots().version >= boundary:
            return
        self._schedule.await_shares(boundary, self._shares)
        with self._heartbeat.spending("work"):
            if boundary:
                self._boundary.complete(boundary)
            else:
                self._boundary.begin()

    def finish(self) -> None:
        """Run the evaluations of the last boundary."""
        self._evaluate(self._rounds)

    def _evaluate(self, boundary: int) -> None:
        if not self._is_first:
            return
        if self._evaluations.are_due(boundary):
            self._schedule.await_end(boundary)
            snapshot = self._arena.snapshots().read(boundary)
            self._evaluations.run(boundary, BoundaryState.of_snapshot(snapshot).steps)
        self._evaluations.mark_done(boundary)

    def close(self) -> None:
        """Close the game."""
        self.game.close()


def play(data: Mapping[str, Any], memory: Mapping[str, Any]) -> None:
    """Run an actor's process: play all remaining rounds."""
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
    actor_process = ActorProcess(parts, heartbeat, process_spec.share)
    heartbeat.beat()
    schedule.await_begin(process_spec.generation)
    played = actor_process.begin()
    actor_process.complete(played)
    for number in range(played + 1, process_spec.config.rounds + 1):
        actor_process.play_round(number)
        actor_process.complete(number)
    actor_process.finish()
