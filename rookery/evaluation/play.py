"""Playing without learning: matches of whole episodes.

Every world plays its quota of the episodes, and its first episodes count. So short
episodes are not over-represented.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from rookery.config.messages import shown
from rookery.config.parse import merge, nested
from rookery.config.resolve import resolve
from rookery.config.run import Config
from rookery.errors import ConfigError, nearest, warn
from rookery.evaluation.recordings import Recorder, Recording
from rookery.evaluation.tables import table_of
from rookery.games.episodes import Episode
from rookery.games.loop import GameLoop
from rookery.games.registry import Entry, MakePlayer, find
from rookery.specs import AgentSpec, Array

if TYPE_CHECKING:
    from pandas import DataFrame

Seat = str | MakePlayer
"""Who plays an agent: the name of one of the game's players, or what makes a player."""
Seats = Seat | Sequence[Seat] | Mapping[Any, Seat]
"""Who plays all agents: one seat for all, a list, or a mapping from agent id to seat."""
MOST_TURNS = 100_000
"""An episode that lasts longer is cut off, unless the settings allow more."""
TRAINED = "trained"
"""The line-up of trained agents that act greedily, without exploration."""
AS_TRAINED = "as_trained"
"""The line-up of trained agents that explore as in training."""


@dataclass
class Match:
    """The result of a match: its episodes, and recordings of them."""

    game: str
    agents: tuple[AgentSpec, ...]
    players: tuple[str, ...]
    """The name of each agent's player."""
    episodes: list[Episode] = field(default_factory=list)
    recordings: list[Recording] = field(default_factory=list)
    cut: int = 0
    """The number of episodes that were cut off because they lasted too long."""

    @property
    def returns(self) -> Array:
        """Each agent's return in each episode, (episodes, agents)."""
        return np.array([episode.returns for episode in self.episodes])

    @property
    def counts(self) -> dict[str, Array]:
        """The game's own counts by name: each agent's in each episode, (episodes, agents).

        A game counts what it likes, such as apples eaten or agents zapped.
        """
        names = self.episodes[0].counts if self.episodes else ()
        return {
            name: np.array([episode.counts[name] for episode in self.episodes])
            for name in names
        }

    def __repr__(self) -> str:
        players = sorted(set(self.players), key=self.players.index)
        mean = f"mean return {self.returns.mean():.2f}" if self.episodes else "no episode"
        return (
            f"<Match of {self.game}: {len(self.agents)} agents ({', '.join(players)}), "
            f"{len(self.episodes)} episode{'s' if len(self.episodes) != 1 else ''}, {mean}>"
        )

    def table(self) -> DataFrame:
        """Return the recordings, one row per world, episode, turn and agent."""
        return table_of(self.recordings)

    def summary(self) -> dict[str, Any]:
        """Return the match in a few numbers.

        `mean` is the mean return over episodes and agents; `std` is the standard deviation
        over episodes of the mean return of all agents; `agents` has each agent's mean
        return. `counts` has the same mean and means for each of the game's counts, and
        `cut` is the number of episodes that were cut off; both only if there are any.
        """
        means = self.returns.mean(axis=1)
        counts = {name: self._means(values) for name, values in self.counts.items()}
        return {
            "mean": float(means.mean()),
            "std": float(means.std(ddof=1)) if len(means) > 1 else 0.0,
            "agents": self._means(self.returns)["agents"],
            **({"counts": counts} if counts else {}),
            **({"cut": self.cut} if self.cut else {}),
        }

    def _means(self, values: Array) -> dict[str, Any]:
        """Return the mean over episodes and agents, and each agent's mean."""
        means = values.mean(axis=0).tolist()
        agents = {spec.id: x for spec, x in zip(self.agents, means, strict=True)}
        return {"mean": float(values.mean()), "agents": agents}


def most_turns(config: Config) -> int:
    """Return how many turns an episode of a match can last before it is cut off."""
    if config.evaluate.turns is not None:
        return config.evaluate.turns
    turns = getattr(config.game.settings, "turns", 0)
    return max(MOST_TURNS, turns) if isinstance(turns, int) else MOST_TURNS


def cut_line(cut: int, config: Config) -> str:
    """Return the warning about episodes that were cut off."""
    several = cut > 1
    return (
        f"{cut} episode{'s' if several else ''} had not ended after {most_turns(config):,} "
        f"turns and {'were' if several else 'was'} cut off; the "
        f"return{'s' if several else ''} so far count{'' if several else 's'}. Make the "
        "game end its episodes, or set evaluate.turns to another limit."
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
    """Play whole episodes and return the result.

    An episode that lasts too long is cut off. Its world cannot start another one, so the
    rest of that world's quota is not played.

    Args:
        entry: the game.
        config: the game's settings, the seed, and the largest number of worlds.
        players: one per agent, by name or as a class.
        episodes: how many to play in total.
        record: whether to record facts, actions and rewards of every episode.
        film: how many episodes of the first world to record with frames.
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
        quota = _EpisodeQuota(match, worlds, episodes)
        loop, most = GameLoop(game, seats), most_turns(config)
        for turn in loop.turns():
            beat()
            cut = loop.running_for(most)
            turn.ended += cut
            match.recordings += recorder.add(turn, wanted=quota.is_open)
            if quota.add(turn.ended, cut):
                progress(len(match.episodes))
            if not quota.is_open.any():
                return match
    finally:
        game.close()
    raise AssertionError("unreachable: turns never end")


class _EpisodeQuota:
    """Counts how many episodes each world still has to play."""

    def __init__(self, match: Match, worlds: int, episodes: int) -> None:
        self._match = match
        self._left = np.full(worlds, episodes // worlds)
        self._left[: episodes % worlds] += 1

    @property
    def is_open(self) -> Array:
        """Which worlds still have episodes to play, (worlds,) bool."""
        return self._left > 0

    def add(self, ended: Sequence[Episode], cut: Sequence[Episode] = ()) -> bool:
        """Add the episodes that count to the match; return whether there was one.

        Args:
            ended: all episodes that ended, including those cut off.
            cut: the episodes cut off: their worlds cannot start another one.
        """
        counted = [episode for episode in ended if self._left[episode.world] > 0]
        self._match.episodes += counted
        for episode in counted:
            self._left[episode.world] -= 1
        for episode in cut:
            self._match.cut += any(episode is other for other in counted)
            self._left[episode.world] = 0
        return bool(counted)


def player_name(player: Seat) -> str:
    """Return the name of a player in tables and files."""
    return player if isinstance(player, str) else player.__name__.lower()


def assign_seats(agents: Sequence[AgentSpec], players: Seats) -> list[Seat]:
    """Return one seat per agent; agents that a mapping leaves out are played at random."""
    if isinstance(players, Mapping):
        by_id = {str(key): seat for key, seat in players.items()}
        ids = [spec.id for spec in agents]
        unknown = [i for i in by_id if i not in ids]
        if unknown:
            raise ConfigError(*(f"unknown agent '{i}': {nearest(i, ids)}" for i in unknown))
        return [by_id.get(i, "random") for i in ids]
    if isinstance(players, Sequence) and not isinstance(players, str):
        seats = list(players)
        return seats * len(agents) if len(seats) == 1 else seats
    return [players] * len(agents)


def play(
    game: str | type,
    /,
    players: Seats = "random",
    *,
    episodes: int = 1,
    worlds: int = 16,
    seed: int = 0,
    record: bool = False,
    film: int = 0,
    **settings: Any,
) -> Match:
    """Play whole episodes of a game with trained or scripted players, without learning.

    Args:
        game: a name from `rookery games`, `./mine.py:Zap`, or the class itself.
        players: one player for all agents, a list, or a mapping from agent id to player;
            agents that a mapping leaves out are played at random. A player is a trained
            agent (from `Run.players`), the name of one of the game's scripted players, or
            a class of players.
        episodes: how many to play.
        worlds: how many to play at once, at most.
        seed: of all random numbers.
        record: whether to record facts, actions and rewards of every episode.
        film: how many episodes of the first world to record with frames.
        **settings: as in `rookery.train`: `game={"turns": 20}`, and
            `evaluate={"turns": 1000}` for the turns after which an episode is cut off;
            also dotted in a mapping: `**{"game.turns": 20}`.

    Returns:
        The match: `match.returns`, `match.counts`, `match.summary()`, `match.episodes`, and
        with `record` or `film` also `match.recordings` and `match.table()`.
    """
    entry = find(game)
    raw = play_settings(entry, settings)
    raw |= {"seed": seed, "worlds": worlds}
    raw["evaluate"] = {**raw.get("evaluate", {}), "episodes": episodes}
    config = resolve(raw, entry.settings)
    seats = assign_seats(agents_of(entry, config), players)
    match = play_match(entry, config, seats, episodes=episodes, record=record, film=film)
    if match.cut:
        warn(cut_line(match.cut, config))
    return match


def play_settings(
    entry: Entry,
    settings: Mapping[str, Any],
    groups: Sequence[str] = ("game", "evaluate"),
) -> dict[str, Any]:
    """Return the tree of the settings with which a game is played, with the game's name.

    Args:
        entry: the game.
        settings: from Python, dotted or in groups.
        groups: which groups can be set; of `evaluate`, only `turns`.

    Raises:
        ConfigError: for settings that do not belong to the game or to playing it.
    """
    tree = nested(settings)
    problems = []
    for key, value in tree.items():
        if key in groups and not isinstance(value, Mapping):
            problems.append(f"{key} must be a group of settings, got {shown(value)}")
        elif key == "evaluate" and key in groups:
            problems += [
                f"'evaluate.{name}' cannot be set here; evaluate.turns can"
                for name in value
                if name != "turns"
            ]
        elif key in entry.settings.model_fields:
            problems.append(
                f"'{key}' is a setting of the game: write game={{{key!r}: {value!r}}}"
            )
        elif key != "game":
            problems.append(
                f"'{key}' cannot be set here; settings of the game can: "
                f"game={{{key!r}: {value!r}}}"
            )
    name = tree.get("game", {}).get("name", entry.name) if not problems else entry.name
    if name != entry.name:
        problems.append(f"game.name is '{name}', but the game is '{entry.name}'")
    if problems:
        raise ConfigError(*problems)
    return merge(tree, {"game": {"name": entry.name}})


def agents_of(entry: Entry, config: Config) -> tuple[AgentSpec, ...]:
    """Return the agents of a game with these settings."""
    game = entry.build_guarded(config.game.settings, 1, config.seed)
    game.close()
    return game.agents
