"""The actor's process: the game, everybody who plays in it, and matches in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rookery.actor.actor import Actor
from rookery.actor.evaluations import Evaluations
from rookery.actor.policies import PolicyRunner
from rookery.actor.weights import PublishedWeights
from rookery.algorithms.agents import build_agents, learning_ids
from rookery.algorithms.base import Agent
from rookery.algorithms.torch_setup import use_one_thread
from rookery.games.registry import Entry, find
from rookery.protocol.arena import Arena
from rookery.protocol.process_spec import ProcessSpec, game_name
from rookery.protocol.schedule import RoundSchedule
from rookery.protocol.timing import time_protocol
from rookery.shm.heartbeat import Heartbeat


class ActorProcess:
    """One game, its players, and the actor who plays it round by round."""

    def __init__(
        self,
        entry: Entry,
        process_spec: ProcessSpec,
        agents: Sequence[Agent],
        arena: Arena,
        schedule: RoundSchedule,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        config = process_spec.config
        self.game = entry.build_guarded(config.game.settings, config.worlds, config.seed)
        scripted = [agent.player for agent in agents]
        players = entry.seat_players(self.game, scripted, config.seed)
        groups = [[agents[i] for i in group] for group in process_spec.groups]
        self.policies = PolicyRunner(groups, config.seed, config.worlds)
        self.actor = Actor(
            self.game,
            agents,
            players,
            arena,
            self.policies,
            config.turns_per_round,
            heartbeat,
        )
        self._published = PublishedWeights(arena, agents)
        self._exact, self._rounds = config.schedule != "async", config.rounds
        self._schedule, self._heartbeat = schedule, heartbeat or Heartbeat()
        self._matches = Evaluations(
            entry, process_spec, agents, arena, self._published, self._heartbeat.beat
        )

    def play_round(self, number: int) -> None:
        """Play a round as soon as it may be; matches of the boundary before come first."""
        self._schedule.await_playing(number)
        if self._matches.are_due(number - 1):
            self._schedule.await_end(number - 1)
            self._matches.play(number - 1, self.actor.state.steps)
        with self._heartbeat.spending("work"):
            if self._exact:
                self.actor.play_round(number, self._published.exact(number - 1))
            else:
                weights = self._published.newest()
                self.actor.play_round(number, weights, self._published.newer)

    def finish(self) -> None:
        """Play the matches of the last boundary."""
        if self._matches.are_due(self._rounds):
            self._schedule.await_end(self._rounds)
            self._matches.play(self._rounds, self.actor.state.steps)

    def close(self) -> None:
        """Let go of the game."""
        self.game.close()


def play(data: Mapping[str, Any], memory: Mapping[str, Any]) -> None:
    """Be the actor: play all rounds that are left."""
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
    stage = ActorProcess(entry, process_spec, agents, arena, schedule, heartbeat)
    heartbeat.beat()
    schedule.await_begin(process_spec.generation)
    for number in range(stage.actor.begin() + 1, process_spec.config.rounds + 1):
        stage.play_round(number)
    stage.finish()
