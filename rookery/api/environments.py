"""`rookery.to_pettingzoo`, `rookery.to_gymnasium` and `rookery.to_gymnasium_vector`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rookery.config.messages import shown
from rookery.config.resolve import resolve
from rookery.config.run import Config
from rookery.errors import ConfigError, nearest
from rookery.evaluation.play import (
    Seat,
    Seats,
    agents_of,
    assign_seats,
    play_settings,
)
from rookery.games.registry import Entry, MakePlayer, find
from rookery.plugins import load_module
from rookery.runs.run import Run

if TYPE_CHECKING:
    from rookery.games.export.gymnasium import SeatEnv
    from rookery.games.export.pettingzoo import GameParallelEnv
    from rookery.games.export.vector import SeatVectorEnv


def to_pettingzoo(
    game: str | type,
    /,
    *,
    seed: int = 0,
    render_mode: str | None = None,
    **settings: Any,
) -> GameParallelEnv:
    """Return a game as a PettingZoo `ParallelEnv`.

    Args:
        game: a name from `rookery games`, `./mine.py:Zap`, or a class of games.
        seed: of all random numbers, until `reset` is given another one.
        render_mode: 'rgb_array', 'ansi', or 'human', which prints the world at every step.
        **settings: of the game, as in `rookery.train`: `game={"turns": 20}`.
    """
    entry, config = _configure(game, seed, settings)
    module = load_module("rookery.games.export.pettingzoo")
    env: GameParallelEnv = module.GameParallelEnv(
        entry, config.game.settings, config.seed, render_mode
    )
    return env


def to_gymnasium(
    game: str | type,
    /,
    agent: int | str = 0,
    others: Seats | Run = "random",
    *,
    seed: int = 0,
    render_mode: str | None = None,
    **settings: Any,
) -> SeatEnv:
    """Return one seat of a game as a Gymnasium `Env`, with players in the other seats.

    Args:
        game: a name from `rookery games`, `./mine.py:Zap`, or a class of games.
        agent: the id of the agent in this seat.
        others: who plays the other agents: one player for all, or a mapping from agent id
            to player, such as `Run.players()`; agents that it leaves out are played at
            random, and an entry for `agent` itself is not used. A player is the name of
            one of the game's scripted players, a class of players, or a trained agent,
            which acts greedily and does not learn. A `Run` stands for all its agents, as
            they were at its end.
        seed: of all random numbers, until `reset` is given another one.
        render_mode: 'rgb_array', 'ansi', or 'human', which prints the world at every step.
        **settings: of the game, as in `rookery.train`: `game={"turns": 20}`.
    """
    entry, config = _configure(game, seed, settings)
    players = _seat(entry, config, agent, others)
    module = load_module("rookery.games.export.gymnasium")
    env: SeatEnv = module.SeatEnv(
        entry, config.game.settings, players, config.seed, render_mode
    )
    return env


def to_gymnasium_vector(
    game: str | type,
    /,
    agent: int | str = 0,
    others: Seats | Run = "random",
    *,
    num_envs: int = 16,
    seed: int = 0,
    render_mode: str | None = None,
    **settings: Any,
) -> SeatVectorEnv:
    """Return one seat of many worlds of a game as a Gymnasium `VectorEnv`.

    World k plays as world k of `rookery.play` with the same seed, players and actions, bit
    for bit.

    Args:
        game: a name from `rookery games`, `./mine.py:Zap`, or a class of games.
        agent: the id of the agent in this seat.
        others: who plays the other agents; see `to_gymnasium`.
        num_envs: the number of worlds.
        seed: of all random numbers, until `reset` is given another one.
        render_mode: 'rgb_array' or 'ansi'.
        **settings: of the game, as in `rookery.train`: `game={"turns": 20}`.
    """
    if type(num_envs) is not int or num_envs < 1:
        raise ConfigError(f"num_envs is {num_envs!r}: give an integer of at least 1.")
    entry, config = _configure(game, seed, settings, num_envs)
    players = _seat(entry, config, agent, others)
    module = load_module("rookery.games.export.vector")
    env: SeatVectorEnv = module.SeatVectorEnv(
        entry, config.game.settings, players, num_envs, config.seed, render_mode
    )
    return env


def _configure(
    game: str | type, seed: int, settings: Mapping[str, Any], worlds: int = 1
) -> tuple[Entry, Config]:
    """Return the game and its configuration; nothing but the game's settings can be set."""
    entry = find(game)
    tree = play_settings(entry, settings, groups=("game",))
    tree |= {"seed": seed, "worlds": worlds}
    return entry, resolve(tree, entry.settings)


def _seat(
    entry: Entry, config: Config, agent: int | str, others: Seats | Run
) -> list[str | MakePlayer | None]:
    """Return one player per agent, and None for the seat that is played from outside."""
    agents = agents_of(entry, config)
    ids = [spec.id for spec in agents]
    if str(agent) not in ids:
        raise ConfigError(
            f"'{entry.name}' has no agent '{agent}': {nearest(str(agent), ids)}"
        )
    if isinstance(others, Run):
        others = _players_of(others)
    players: list[str | MakePlayer | None] = list(assign_seats(agents, others))
    if len(players) != len(ids):
        raise ConfigError(
            f"got {len(players)} players for the {len(ids)} agents of '{entry.name}': name "
            "one for all others, or a mapping from agent id to player."
        )
    for i, player in zip(ids, players, strict=True):
        if not (isinstance(player, str) or callable(player)):
            raise ConfigError(
                f"the player of agent '{i}' is {shown(player)}: give the name of a player, "
                "a class of players or a trained agent."
            )
    players[ids.index(str(agent))] = None
    return players


def _players_of(run: Run) -> dict[str, Seat]:
    """Return who plays each agent of a run: its trained agents and scripted players."""
    trained = run.players()
    return {
        agent.id: trained[agent.id] if agent.algorithm else agent.player or "random"
        for agent in run.agents
    }
