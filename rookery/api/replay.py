"""`rookery.replay` and `rookery.record`: play, to watch or to tabulate what was played."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rookery.algorithms.torch_setup import standard_state
from rookery.api.lineups import Setup, game_setups, names_run, run_setups, split_round
from rookery.config.messages import shown
from rookery.errors import ConfigError, warn
from rookery.evaluation.pictures import check_size
from rookery.evaluation.play import Match, Seat, Seats, cut_line, most_turns
from rookery.evaluation.recordings import Recording
from rookery.evaluation.tables import write_parquet
from rookery.games.players import Player
from rookery.runs.agent_files import WITH_ROUND
from rookery.runs.folder import is_run, no_run
from rookery.runs.run import Run

if TYPE_CHECKING:
    from pandas import DataFrame

MOST_EPISODES = 100_000
LONGEST_NAME = 80
"""Characters of a line-up in the names of files."""


@standard_state()
def replay(
    game_or_run: str | type | Path | Run,
    /,
    players: Seats | None = None,
    *,
    round: int | None = None,
    episode: int = 0,
    seed: int | None = None,
    out: str | Path | None = None,
    fps: float | None = None,
    size: int | None = None,
    game: str | type | Mapping[str, Any] | None = None,
    algorithm: str | type | Sequence[str | type] | None = None,
    **settings: Any,
) -> Recording:
    """Play one episode without learning, and return its recording, which can be drawn.

    In a notebook the recording shows itself; `recording.write` writes it to a file.

    Args:
        game_or_run: a game or its class, a run or its folder, or RUN@ROUND.
        players: who plays: one player for all agents, a list, or a mapping from agent id
            to player. A player is a scripted player of the game, a trained agent, or an
            agent of another run: 'RUN', 'RUN@ROUND', 'RUN:ID' or 'RUN:ID@ROUND'. In a run
            also 'trained', 'as_trained' (with exploration) and 'trained@ROUND'. By default
            all agents of a run are 'trained', and those of a game 'random'.
        round: the round whose weights the agents of a run have; by default the last.
        episode: which one to show, from 0.
        seed: of all random numbers; by default that of the run, or 0.
        out: a file to write: .gif, .mp4 (needs ffmpeg), .png (a sheet of pictures) or
            .safetensors (the recording).
        fps: turns per second in a .gif or .mp4; 8.3 by default.
        size: width of the pictures in pixels, about.
        game: for a run, the game's name or class if it is not built in; for a game, its
            settings: `{"turns": 20}`.
        algorithm: for a run, its algorithms that are not built in.
        **settings: as in `rookery.train`: `evaluate={"turns": 1000}`.
    """
    check_output(out, fps, size)
    setup = next(_setups(game_or_run, players, round, seed, game, algorithm, settings))
    recording = play_episode(setup, episode).recordings[0]
    if out is not None:
        write_out(recording, Path(out), fps, size)
    return recording


@standard_state()
def record(
    game_or_run: str | type | Path | Run,
    file: str | Path | None = None,
    /,
    players: Seats | None = None,
    *,
    round: int | None = None,
    episodes: int | None = None,
    seed: int | None = None,
    game: str | type | Mapping[str, Any] | None = None,
    algorithm: str | type | Sequence[str | type] | None = None,
    **settings: Any,
) -> DataFrame:
    """Play without learning, and return a table of every turn (needs pandas).

    There is one row per world, episode, turn and agent: its action, its reward, and the
    facts and counts of the game.

    Args:
        game_or_run: a game or its class, a run or its folder, or RUN@ROUND.
        file: a Parquet file to write the table to (needs pyarrow).
        players: who plays, as in `rookery.replay`.
        round: the round whose weights the agents of a run have; by default the last.
        episodes: how many; by default `evaluate.episodes`.
        seed: of all random numbers; by default that of the run, or 0.
        game: for a run, the game's name or class if it is not built in; for a game, its
            settings: `{"turns": 20}`.
        algorithm: for a run, its algorithms that are not built in.
        **settings: as in `rookery.train`: `worlds=64`, `evaluate={"turns": 1000}`.
    """
    if episodes is not None:
        settings = {**settings, "evaluate.episodes": episodes}
    setup = next(_setups(game_or_run, players, round, seed, game, algorithm, settings))
    table = play_all(setup).table()
    if file is not None:
        write_parquet(table, file)
    return table


def _setups(
    game_or_run: str | type | Path | Run,
    players: Seats | None,
    round: int | None,
    seed: int | None,
    game: str | type | Mapping[str, Any] | None,
    algorithm: str | type | Sequence[str | type] | None,
    settings: Mapping[str, Any],
) -> Iterator[Setup]:
    changes = {**settings, **({} if seed is None else {"seed": seed})}
    if isinstance(game, Mapping):
        changes["game"] = game
    name = None if isinstance(game, Mapping) else game
    algorithms = [algorithm] if isinstance(algorithm, str | type) else algorithm or ()
    return setups(game_or_run, players, round, (), None, name, algorithms, changes)


def setups(
    game_or_run: str | type | Path | Run | None,
    players: Seats | None,
    round: int | None,
    overrides: Sequence[str],
    config_file: Path | None,
    game: str | type | None,
    algorithms: Sequence[str | type],
    settings: Mapping[str, Any] | None = None,
) -> Iterator[Setup]:
    """Return the line-ups that `replay` and `record` choose the first of.

    Args:
        game_or_run: as in `replay`.
        players: as in `replay`.
        round: as in `replay`.
        overrides: settings from the command line, KEY=VALUE each.
        config_file: a TOML file of settings, for a game.
        game: for a run, the game's name as in training if it is not built in.
        algorithms: the same for algorithms.
        settings: settings from Python.
    """
    is_path = isinstance(game_or_run, str) and names_run(game_or_run)
    if not isinstance(game_or_run, Run | Path) and not is_path:
        name: Any = game_or_run
        for option, value in {"round": round, "game": game}.items():
            if value is not None:
                raise ConfigError(
                    f"{option} is {shown(value)}, which is for runs, and '{name}' is a "
                    "game: leave it out, or name a run."
                )
        players = with_other_runs(players, name, algorithms)
        return game_setups(name, overrides, players, config_file, settings)
    if config_file is not None:
        raise ConfigError(
            "--config cannot be used with a run, which has its own: leave it out, or name "
            "the game."
        )
    assert isinstance(game_or_run, str | Path | Run)
    players = with_other_runs(players, game, algorithms)
    return run_setups(game_or_run, overrides, game, algorithms, players, round, settings)


def with_other_runs(
    players: Seats | None, game: str | type | None, algorithms: Sequence[str | type]
) -> Seats | None:
    """Return players with agents of other runs opened: RUN, RUN:ID, RUN@ROUND.

    Args:
        players: as in `replay`.
        game: the game's name, if it is not built in.
        algorithms: the same for algorithms.
    """

    def opened(player: Seat) -> Seat:
        return trained_in(player, game, algorithms) or player

    if isinstance(players, Mapping):
        return {agent: opened(player) for agent, player in players.items()}
    if isinstance(players, str):
        names = players.split(",")
        seats = [opened(name) for name in names]
        if all(isinstance(seat, str) for seat in seats):
            return players
        return seats
    if isinstance(players, Sequence):
        return [opened(player) for player in players]
    return players


def trained_in(
    player: Seat, game: str | type | None, algorithms: Sequence[str | type]
) -> Seat | None:
    """Return the agents of a run as a player; None if the name is not that of a run."""
    if not isinstance(player, str):
        return None
    folder, number = split_round(player)
    agent = None
    if not is_run(folder):
        before, _, agent = player.rpartition(":")
        if not before or not is_run(Path(before)):
            return None
        folder = Path(before)
    run = Run(folder, game, algorithms)
    with_round = WITH_ROUND.fullmatch(agent or "")
    if with_round and agent not in [other.id for other in run.agents]:
        agent, number = with_round["agent"], int(with_round["round"])
    return AgentsOfRun(run, number, agent)


class AgentsOfRun:
    """The trained agents of a run as a player, which plays with one of them."""

    def __init__(self, run: Run, number: int | None, agent: str | None) -> None:
        """Load the agents.

        Args:
            run: the run.
            number: the round that their weights are from; None for the last.
            agent: the id of the one that plays; by default that of the agent it plays.
        """
        self._agents, self._agent = run.players(number), agent
        if agent is not None:
            _ = self._agents[agent]  # report a wrong id at once
        label = "" if agent is None else f":{agent}"
        written = run.rounds_with_weights[-1] if number is None else number
        self.__name__ = f"{run.path.name}{label}@{written}"

    def __call__(self, spec: Any, *arguments: Any) -> Player:
        """Return a player, as a class of players does."""
        trained = self._agents[spec.id if self._agent is None else self._agent]
        return trained(spec, *arguments)


def play_episode(
    setup: Setup, episode: int = 0, say: Callable[[str], None] | None = None
) -> Match:
    """Play the first line-up up to an episode, and return the match of that one alone.

    Args:
        setup: the game and the line-ups.
        episode: which episode of the first world, from 0.
        say: called with each warning; by default they are Python warnings.
    """
    check_episode(episode)
    setup.config = setup.config.model_copy(update={"worlds": 1})
    label = next(iter(setup.lineups))
    match = setup.play(label, episode + 1, record=True, film=episode + 1)
    _warn(match, setup, say)
    if len(match.episodes) <= episode:
        raise ConfigError(
            f"there is no episode {episode}: episode {len(match.episodes) - 1} had not "
            f"ended after {most_turns(setup.config):,} turns; choose an earlier one, or "
            "set evaluate.turns to another limit."
        )
    match.episodes, match.recordings = match.episodes[-1:], match.recordings[-1:]
    (recording,) = match.recordings
    drawn = len(recording.film())
    if drawn < recording.turns:
        _tell(
            f"the film ends after turn {drawn:,} of {recording.turns:,}: more pictures "
            "would make the recording too large. Set evaluate.turns to end the episode "
            "earlier.",
            say,
        )
    return match


def play_all(setup: Setup, say: Callable[[str], None] | None = None) -> Match:
    """Play all episodes of the first line-up, and record every turn.

    Args:
        setup: the game and the line-ups.
        say: called with each warning; by default they are Python warnings.
    """
    if setup.run is not None and setup.is_seed:
        raise no_run(setup.run.path.parent)
    label = next(iter(setup.lineups))
    match = setup.play(label, setup.config.evaluate.episodes, record=True)
    _warn(match, setup, say)
    return match


def _warn(match: Match, setup: Setup, say: Callable[[str], None] | None) -> None:
    if match.cut:
        _tell(cut_line(match.cut, setup.config), say)


def _tell(line: str, say: Callable[[str], None] | None) -> None:
    if say is not None:
        say(f"warning: {line}")
    else:
        warn(line)


def check_episode(episode: Any) -> None:
    """Check the number of an episode.

    Raises:
        ConfigError: if it is not one.
    """
    is_whole = isinstance(episode, int) and not isinstance(episode, bool)
    if not is_whole or not 0 <= episode < MOST_EPISODES:
        raise ConfigError(
            f"episode is {episode!r}, expected a whole number from 0 to "
            f"{MOST_EPISODES - 1:,}."
        )


def check_output(out: str | Path | None, fps: float | None, size: int | None) -> None:
    """Check how a film is to be written, before its episode is played.

    Raises:
        ConfigError: if it cannot be.
    """
    if size is not None:
        check_size(size)
    if out is not None:
        from rookery.evaluation.video import check_film

        check_film(Path(out), fps)
    elif fps is not None:
        raise ConfigError("fps is for a film in a file: name the file with out.")


def write_out(recording: Recording, out: Path, fps: float | None, size: int | None) -> None:
    """Write a recording to a file that the user named.

    Raises:
        ConfigError: if it cannot be written.
    """
    try:
        recording.write(out, fps, size)
    except OSError as error:
        raise ConfigError(
            f"{out} cannot be written ({error.strerror}): name a file in a folder that you "
            "can write to."
        ) from error


def file_name(setup: Setup, episode: int) -> str:
    """Return the name of a replay's files, without extension."""
    if setup.run is None:
        return f"episode-{episode}"
    number = setup.round_number
    label = re.sub(rf"@{number}\b", "", next(iter(setup.lineups)))
    label = re.sub(r"[^\w@.-]+", "-", label)[:LONGEST_NAME]
    suffix = f"-episode-{episode}" if episode else ""
    return f"{label}-round-{number}{suffix}"
