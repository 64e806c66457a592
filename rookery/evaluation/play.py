"""Playing without learning: matches of whole episodes, counted fairly.

Every world plays its share of the episodes, its first ones, so that short episodes are
not preferred to long ones.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.config.resolve import resolve
from rookery.config.run import Config
from rookery.errors import ConfigError, nearest
from rookery.evaluation.recordings import Recorder, Recording
from rookery.evaluation.tables import table_of
from rookery.games.episodes import Episode
from rookery.games.loop import GameLoop
from rookery.games.registry import Entry, MakePlayer, find
from rookery.specs import AgentSpec, Array

if TYPE_CHECKING:
    from pandas import DataFrame

Seat = str | MakePlayer
Lineup = Seat | Sequence[Seat] | Mapping[Any, Seat]
MOST_TURNS = 100_000
"""An episode that lasts longer is taken to have no end, if nothing else was said."""


@dataclass
class Match:
    """The episodes that were played, and what was recorded of them."""

    game: str
    agents: tuple[AgentSpec, ...]
    players: tuple[str, ...]
    """The name of each agent's player."""
    episodes: list[Episode] = field(default_factory=list)
    recordings: list[Recording] = field(default_factory=list)
    cut: int = 0
    """How many of the episodes were cut off, because they lasted too long."""

    @property
    def returns(self) -> Array:
        """What each episode brought each agent, (episodes, agents)."""
        return np.array([episode.returns for episode in self.episodes])

    def table(self) -> DataFrame:
        """Return what was recorded, a row per world, episode, turn and agent."""
        return table_of(self.recordings)

    def summary(self) -> dict[str, Any]:
        """Return mean and spread over episodes of the agents' mean, and each agent's."""
        returns = self.returns
        means = returns.mean(axis=1)
        ids = [spec.id for spec in self.agents]
        return {
            "mean": float(means.mean()),
            "std": float(means.std(ddof=1)) if len(means) > 1 else 0.0,
            "agents": {i: float(x) for i, x in zip(ids, returns.mean(axis=0), strict=True)},
            **({"cut": self.cut} if self.cut else {}),
        }


def most_turns(config: Config) -> int:
    """Return how many turns an episode of a match may last."""
    if config.evaluate.turns is not None:
        return config.evaluate.turns
    own = getattr(config.game.settings, "turns", 0)
    return max(MOST_TURNS, own) if isinstance(own, int) else MOST_TURNS


def cut_line(cut: int, config: Config) -> str:
    """Return what to say of episodes that were cut off."""
    several = cut > 1
    return (
        f"{cut} episode{'s' if several else ''} had not ended after {most_turns(config):,} "
        f"turns and {'were' if several else 'was'} cut off, counting the "
        f"return{'s' if several else ''} so far: let the game end its episodes, or set "
        "evaluate.turns to another limit."
    )


def play_match(
    entry: Entry,
    config: Config,
    players: Sequence[Seat],
    *,
    episodes: int,
    record: bool = False,
    film: int = 0,
    round_number: int | None = None,
    progress: Callable[[int], None] = lambda finished: None,
    beat: Callable[[], None] = lambda: None,
) -> Match:
    """Play whole episodes and return them.

    An episode that lasts too long is cut off, and the rest of its world's share is left
    out, because that world plays on in it.

    Args:
        entry: the game, from the catalog.
        config: the game's settings, the seed, and how many worlds to play at most.
        players: one per agent, by name or as a class.
        episodes: how many to play in all.
        record: whether to keep facts, actions and rewards of every episode.
        film: of how many episodes of the first world to keep pictures, too.
        round_number: which round of a curriculum to play; by default none is begun.
        progress: called with the number of finished episodes.
        beat: called every turn, as a sign of life.
    """
    worlds, seed = min(config.worlds, episodes), config.seed
    game = entry.build_guarded(config.game.settings, worlds, seed)
    try:
        if round_number is not None:
            game.begin_round(round_number)
        seats = list(entry.seat_players(game, players, seed).values())
        match = Match(entry.name, game.agents, tuple(map(player_name, players)))
        recorder = Recorder(game, match.players, record, film)
        shares = _Shares(match, worlds, episodes)
        table, most = GameLoop(game, seats), most_turns(config)
        for turn in table.turns():
            beat()
            cut = table.running_for(most)
            turn.ended += cut
            match.recordings += recorder.add(turn, wanted=shares.open)
            if shares.add(turn.ended, cut):
                progress(len(match.episodes))
            if not shares.open.any():
                return match
    finally:
        game.close()
    raise AssertionError("unreachable: turns never end")


class _Shares:
    """How many episodes each world still has to play."""

    def __init__(self, match: Match, worlds: int, episodes: int) -> None:
        self._match = match
        self._left = np.full(worlds, episodes // worlds)
        self._left[: episodes % worlds] += 1

    @property
    def open(self) -> Array:
        """Which worlds still have episodes to play, (worlds,) bool."""
        return self._left > 0

    def add(self, ended: Sequence[Episode], cut: Sequence[Episode] = ()) -> bool:
        """Keep the episodes that count; return whether there was one.

        Args:
            ended: all that are over.
            cut: those of them that have no end: their worlds cannot begin another.
        """
        wanted = [episode for episode in ended if self._left[episode.world] > 0]
        self._match.episodes += wanted
        for episode in wanted:
            self._left[episode.world] -= 1
        for episode in cut:
            self._match.cut += any(episode is one for one in wanted)
            self._left[episode.world] = 0
        return bool(wanted)


def player_name(player: Seat) -> str:
    """Return what to call a player in tables and files."""
    return player if isinstance(player, str) else player.__name__.lower()


def lineup(
    agents: Sequence[AgentSpec],
    players: Lineup,
) -> list[Seat]:
    """Return one player per agent from one for all, a list, or a mapping by id."""
    if isinstance(players, Mapping):
        return _by_id(agents, {str(key): value for key, value in players.items()})
    if isinstance(players, Sequence) and not isinstance(players, str):
        every = list(players)
        return every * len(agents) if len(every) == 1 else every
    return [players] * len(agents)


def _by_id(agents: Sequence[AgentSpec], players: Mapping[str, Seat]) -> list[Seat]:
    ids = [spec.id for spec in agents]
    problems = [f"unknown agent '{i}': {nearest(i, ids)}" for i in players if i not in ids]
    if problems:
        raise ConfigError(*problems)
    return [players.get(i, "random") for i in ids]


def play(
    game: str,
    players: Lineup = "random",
    *,
    episodes: int = 1,
    worlds: int = 16,
    seed: int = 0,
    record: bool = False,
    film: int = 0,
    **settings: Any,
) -> Match:
    """Let scripted players play a game, and return the match.

    Args:
        game: a name from `rookery games`, or `./mine.py:Zap`.
        players: one for all agents, a list, or a mapping from agent id to player; by
            name, or as a class of players.
        episodes: how many to play.
        worlds: how many to play at once, at most.
        seed: where all random numbers come from.
        record: whether to keep facts, actions and rewards of every episode.
        film: of how many episodes of the first world to keep pictures, too.
        **settings: the game's own.
    """
    entry = find(game)
    raw = {"seed": seed, "worlds": worlds, "game": {**settings, "name": game}}
    config = resolve(raw | {"evaluate": {"episodes": episodes}}, entry.settings)
    seats = lineup(agents_of(entry, config), players)
    match = play_match(entry, config, seats, episodes=episodes, record=record, film=film)
    if match.cut:
        warnings.warn(cut_line(match.cut, config), stacklevel=2)
    return match


def agents_of(entry: Entry, config: Config) -> tuple[AgentSpec, ...]:
    """Return who plays this game with these settings."""
    game = entry.build_guarded(config.game.settings, 1, config.seed)
    game.close()
    return game.agents
