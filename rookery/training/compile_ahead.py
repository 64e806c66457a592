"""Where no loops are compiled yet, two processes compile them instead of one.

A run compiles the loops of its learners when it compares stacked agents with separate
ones, and those of its game in the first round. The first run on a machine makes a copy of
its process, which plays the game while the original compares. What the copy compiles
reaches the original through the cache on disk.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice

from rookery.algorithms.base import Agent
from rookery.algorithms.common.optimizer import norm_of
from rookery.config.run import Config
from rookery.games.gridworld import GridEngine
from rookery.games.guard import GuardedGame
from rookery.games.loop import GameLoop
from rookery.games.registry import Entry
from rookery.kernels import is_to_be_cached
from rookery.learner.exactness import acts_in_shares, can_stack
from rookery.stop import SIGNALS
from rookery.supervisor.child import die_with
from rookery.training.autoscale import cores

TURNS = 20
WAIT_SECONDS = 30.0
"""How long to wait for the copy when everything else is compiled."""


@contextmanager
def compile_ahead(
    entry: Entry, game: GuardedGame, groups: Sequence[Sequence[Agent]], config: Config
) -> Iterator[None]:
    """Compile what the first round needs beside what is compiled within this context.

    Args:
        entry: of the game.
        game: in its first turn; it stays there, since the copy plays a copy.
        groups: the agents that are computed together.
        config: of the run.
    """
    # Every learner with compiled loops uses this one. Of several threads only one would
    # survive in a copy, and the others may hold locks.
    is_first = is_to_be_cached(norm_of)
    if not is_first or cores() < 2 or threading.active_count() > 1:
        yield
        return
    main = os.getpid()
    pid = os.fork()
    if pid == 0:
        _rehearse_and_exit(main, entry, game, groups, config)
    finished = False
    try:
        yield
        finished = _wait(pid)
    finally:
        if not finished:
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _wait(pid: int) -> bool:
    """Wait until a process has ended, but not forever; return whether it has."""
    descriptor = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(WAIT_SECONDS * 1000))
    finally:
        os.close(descriptor)


def _rehearse_and_exit(
    main: int,
    entry: Entry,
    game: GuardedGame,
    groups: Sequence[Sequence[Agent]],
    config: Config,
) -> None:
    """Play and act in the copy; nothing of it leaves but compiled loops."""
    try:
        die_with(main)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)  # main decides when to stop
        silent = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(silent, descriptor)
        with suppress(BaseException):  # main meets the same error, and reports it
            _play(entry, game, config.seed)
            sizes = (config.seed, config.worlds, config.turns_per_round)
            for group in filter(can_stack, groups):
                acts_in_shares(group, *sizes, [slice(config.worlds)])
    finally:
        os._exit(0)


def _play(entry: Entry, game: GuardedGame, seed: int) -> None:
    """Play some turns of a grid game; other games have no loops of ours."""
    if isinstance(game.game, GridEngine):
        players = entry.seat_players(game, ["random"] * len(game.agents), seed)
        for _ in islice(GameLoop(game, list(players.values())).turns(), TURNS):
            pass
