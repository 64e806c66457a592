"""Code in the plan of a sweep: only what is built in, or what the user names again, runs.

A plan is a file, which somebody else may have written. What it names beside the game, its
algorithms, networks and probes, is refused with a line that says how to name it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rookery.config.run import Config
from rookery.errors import ConfigError
from rookery.games.registry import entries_by_name
from rookery.local_code import is_local
from rookery.protocol.user_files import algorithms_of
from rookery.runs.run import is_named, undefined, untrusted_algorithms


@dataclass(frozen=True)
class Named:
    """Code that the user has named on the command line or in Python."""

    games: Sequence[str] = ()
    algorithms: Sequence[str] = ()
    probes: Sequence[str] = ()

    def with_all(self, other: Named) -> Named:
        """Return what this or the other one names."""
        return Named(
            [*self.games, *other.games],
            [*self.algorithms, *other.algorithms],
            [*self.probes, *other.probes],
        )

    def arguments(self) -> list[str]:
        """Return the options that name it again in another process."""
        return [
            *(f"--game={name}" for name in self.games),
            *(f"--algorithm={name}" for name in self.algorithms),
            *(f"--probe={name}" for name in self.probes),
        ]


def refuse_unnamed_game(game: str, named: Named, where: Path) -> None:
    """Refuse a game that a file names and the user does not."""
    if game not in entries_by_name() and not is_named(game, named.games):
        raise ConfigError(
            f"{where} names {game!r}, which is not a built-in game. If you trust this "
            f"code, add: --game {game}"
        )


def refuse_unnamed(
    config: Config, named: Named, where: Path, with_resume: str = ""
) -> None:
    """Refuse algorithms, networks and probes that a file names and the user does not."""
    used = algorithms_of(config).values()
    if missing := untrusted_algorithms(used, named.algorithms):
        if is_local(missing[0]):
            raise undefined(where.parent, missing[0], "algorithm")
        raise ConfigError(
            f"{where} names {missing[0]!r}, which is not built in. If you trust this code, "
            f"add: --algorithm {missing[0]}"
        )
    probe = config.probe.code
    if probe and not is_named(probe, named.probes):
        raise ConfigError(
            f"{where} names the probe {probe!r}, which is code. If you trust it, add: "
            f"--probe {probe}{with_resume and with_resume + probe}"
        )
