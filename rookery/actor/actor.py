"""The actor: stage 2 of the data path, a process that plays all worlds or a share of them.

It takes the weights for a round, plays the round's turns, writes a row per agent, world
and turn, and commits each turn for all agents and its worlds at once. At the end of the
round it publishes its part of the snapshot: everything needed to continue in its worlds.

An actor that is restarted resumes from its newest snapshot. It first replays the turns
that were committed after it, without touching their rows, and then plays on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rookery.actor.metrics import RoundMetrics
from rookery.actor.policies import PolicyRunner, Weights, exploration_of
from rookery.actor.recovery import InterruptedGame, can_restore
from rookery.actor.reports import PlayedShare
from rookery.actor.state import ActorState, BoundaryState, snapshot_of
from rookery.algorithms.base import Agent
from rookery.games.base import Game, Observations, Outcome
from rookery.games.episodes import Episode
from rookery.games.player_guard import actions_of, forget
from rookery.games.players import Observation, Player
from rookery.protocol.arena import COMMIT, Arena, first_row
from rookery.protocol.shares import Share, commit_counter
from rookery.replay.buffer import ReplayWriter, check_whole
from rookery.shm.heartbeat import Heartbeat
from rookery.specs import Array, under

REFRESH_TURNS = 8
"""In async, the actor checks for newer weights every so many turns."""


class Actor:
    """Plays a game for all agents in the worlds of a share, one round at a time.

    `begin` restores the newest snapshot, then `play_round` is called once per round. A
    turn is the usual loop of observing, acting and stepping; `_play_turn` has all of it.
    """

    def __init__(
        self,
        game: Game,
        agents: Sequence[Agent],
        players: Mapping[int, Player],
        arena: Arena,
        share: Share,
        policies: PolicyRunner,
        turns_per_round: int,
        heartbeat: Heartbeat | None = None,
    ) -> None:
        """Connect a game, the agents that act in it, and the memory for their rows.

        Args:
            game: the worlds of the share, in their first turn.
            agents: all agents of the game, in its order.
            players: of scripted agents, by agent number.
            arena: the run's shared memory.
            share: the worlds to play.
            policies: of all other agents.
            turns_per_round: how many turns a round has.
            heartbeat: gets a beat every turn.
        """
        self._game, self._agents, self._players = game, agents, players
        self._arena, self._share, self._policies = arena, share, policies
        self._turns = turns_per_round
        self._heartbeat = heartbeat or Heartbeat()
        self._snapshots = arena.share_snapshots(share)
        self._is_alone = share.count == 1
        self._commit = COMMIT if self._is_alone else commit_counter(share.number)
        """The name of the counter of committed turns."""
        self._writers = {
            agent.number: ReplayWriter(arena.rows(agent.id, share)) for agent in agents
        }
        self._rows = {number: writer.rows for number, writer in self._writers.items()}
        self.state = ActorState(agents, game)
        self._versions: dict[int, int] = {}
        self._exploration: dict[int, float] = {}
        """Each agent's probability of a random action in this round."""
        self._committed = 0
        """The number of turns that were committed before this actor began."""
        self._was_interrupted = False
        """Whether the game was started again, and no report has said so yet."""

    def begin(self) -> int:
        """Restore the newest snapshot, or publish the first; return its boundary."""
        boundary = self._snapshots.version
        self._committed = self._arena.counters.load(self._commit)
        if boundary < 0:
            self._publish(0)
            return 0
        self._restore(boundary)
        self._check_rows()
        return boundary

    def _publish(self, boundary: int) -> None:
        snapshot = snapshot_of(self._game, self.state, self._players)
        self._snapshots.publish(boundary, snapshot)

    def play_round(
        self,
        number: int,
        weights: Weights,
        refresh: Callable[[], Weights] | None = None,
    ) -> None:
        """Play a round, report it, and publish a snapshot at its end.

        Exploration follows each agent's steps, in all worlds, at the boundary that the
        round starts from, so it is the same in every turn and share.

        Args:
            number: of the round.
            weights: what agents act with.
            refresh: called every few turns; returns weights published since.
        """
        started = time.perf_counter()
        self._game.begin_round(number)
        self._versions = dict(weights.versions)
        self._policies.begin_round(number, weights.arrays)
        steps = BoundaryState.of_snapshot(self._arena.snapshots().read(number - 1)).steps
        self._exploration = {
            agent.number: exploration_of(agent, int(steps[agent.number]))
            for agent in self._agents
            if not agent.is_scripted
        }
        metrics = RoundMetrics(len(self._agents), self._share.worlds, number)
        episodes: list[tuple[int, Episode]] = []
        was_interrupted, self._was_interrupted = self._was_interrupted, False
        for turn in range(self._turns):
            if refresh is not None and turn % REFRESH_TURNS == 0:
                newer = refresh()
                self._versions |= newer.versions
                self._policies.update_weights(newer.arrays)
            metrics.add_versions(self._versions)
            for episode in self._play_turn(metrics):
                episode.world += self._share.first_world
                episodes.append((turn, episode))
        seconds = time.perf_counter() - started
        report = PlayedShare(metrics.sums, metrics.lags, episodes, seconds, was_interrupted)
        self._arena.share_reports(self._share).write(number, report.to_json())
        self._publish(number)

    def _play_turn(self, metrics: RoundMetrics) -> list[Episode]:
        """Advance every world by one turn; return the episodes that ended."""
        self._heartbeat.beat()
        for phase in self._game.begin_turn():
            observations = self._game.observe(phase)
            if not self._is_replaying:
                self._write_observations(phase, observations)
            actions = self._select_actions(phase, observations, metrics)
            self._game.act(phase, actions)
        outcome = self._game.end_turn()
        if not self._is_replaying:
            self._write_outcome_and_commit(outcome)
        metrics.add_rewards(outcome.rewards)
        self.state.turn += 1
        starting, ended = self.state.episodes.add(outcome)
        if np.count_nonzero(starting):
            self.state.forget(starting)
            for player in self._players.values():
                forget(player, starting)
        return ended

    @property
    def _is_replaying(self) -> bool:
        """Whether this turn was committed before: its rows are read, not written."""
        return self.state.turn < self._committed

    def _write_observations(self, phase: Sequence[int], observations: Observations) -> None:
        for index, i in enumerate(phase):
            self._writers[i].write_observation(
                self.state.turn,
                observations.parts[index],
                observations.active[index],
                observations.legal[index],
                self.state.episodes.age,
                self.state.hidden.get(i),
            )

    def _select_actions(
        self, phase: Sequence[int], observations: Observations, metrics: RoundMetrics
    ) -> Array:
        """Return the actions of a phase, (worlds, agents of the phase), and write them.

        In a replayed turn, policies and players act as well, so that hidden states,
        players' memory and metrics come out the same; the actions are the stored ones.
        """
        turn, is_replaying = self.state.turn, self._is_replaying
        active = np.array(observations.active)
        actions = np.zeros(active.shape, np.int64)
        legal = dict(zip(phase, observations.legal, strict=True))
        explore = self._exploration.__getitem__
        for group, output in self._policies.act(phase, self._rows, legal, turn, explore):
            metrics.add_output(group.agents, group.places, output, active, actions)
            for k, i in enumerate(group.numbers):
                place = group.places[k]
                if output.hidden is not None:
                    self.state.carry(i, output.hidden[k], active[place])
                if not is_replaying:
                    self._write_action(i, actions[place], output.probabilities[k])
        for place, i in enumerate(phase):
            if i in self._players:
                metrics.add_active(i, active[place])
                parts = observations.parts[place]
                observation = Observation(parts, active[place], legal[i])
                actions[place] = actions_of(self._players[i], observation, turn)
                if not is_replaying:
                    self._write_action(i, actions[place], 1.0)
            if is_replaying:
                stored = self._rows[i].columns["action"]
                actions[place] = stored[turn % self._rows[i].slots]
        return actions.T

    def _write_action(self, i: int, actions: Array, probabilities: Array | float) -> None:
        version = self._versions.get(i, 0)
        self._writers[i].write_action(self.state.turn, actions, probabilities, version)

    def _write_outcome_and_commit(self, outcome: Outcome) -> None:
        """Complete every agent's row of this turn, then commit all of them at once.

        A single actor seals its rows, and commits them for learners as well.
        """
        for i, writer in self._writers.items():
            writer.write_outcome(
                self.state.turn,
                outcome.rewards[:, i],
                outcome.terminated[:, i],
                outcome.truncated[:, i],
                seal=self._is_alone,
            )
        self._arena.counters.store(self._commit, self.state.turn + 1)

    def _check_rows(self) -> None:
        """Verify the sealed rows that will be replayed or stacked as earlier frames.

        Raises:
            DamagedRow: if one is damaged. Learners verify all rows, but only after the
                round.
        """
        for agent in self._agents:
            oldest_frame = self.state.turn - agent.settings.frames + 1
            first = max(self._arena.counters.load(first_row(agent.id)), oldest_frame)
            turns = range(first, self._arena.counters.load(COMMIT))
            rows = self._rows[agent.number]
            check_whole(agent.id, rows, turns, self._heartbeat.beat)

    def _restore(self, boundary: int) -> None:
        """Restore a snapshot; a game that cannot be restored is started again."""
        arrays = self._snapshots.read(boundary)
        self.state.restore(boundary * self._turns, under("life/", arrays))
        for i, player in self._players.items():
            for name, array in under(f"player {i}/", arrays).items():
                player.memory[name][...] = array
        game_arrays = under("game/", arrays)
        if can_restore(self._game, game_arrays):
            self._game.restore(game_arrays)
        elif self._committed > 0:
            turns = range(self.state.turn, self._committed)
            rows = list(self._rows.values())
            self._game = InterruptedGame(self._game, rows, turns, self.state.episodes)
            self._was_interrupted = True
