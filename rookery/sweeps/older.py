"""Folders of seeds from before several seeds were a sweep: they become one when resumed.

seeds.json held the list of seeds, the configuration and the seal that they started with,
and all changes since, of which the last could be `pending`: not yet made in every seed. In
folders from before seeds.json there was nothing of that.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from rookery.config.resolve import resolve
from rookery.config.toml import to_toml
from rookery.errors import ConfigError
from rookery.runs.claim import Claim
from rookery.runs.folder import SEEDS, SWEEP, seeds_of
from rookery.runs.run import Run, trusted_entry
from rookery.runs.seal import read_seal
from rookery.storage.access import is_file
from rookery.storage.arrays import Damaged
from rookery.storage.summed_json import read_with_checksum
from rookery.sweeps.changes import changed_group
from rookery.sweeps.plan import Group, write_plan
from rookery.sweeps.trust import Named


def convert(folder: Path, named: Named, say: Callable[[str], None]) -> None:
    """Write the plan of a folder of seeds that has none.

    Args:
        folder: of the seeds.
        named: code that is not built in.
        say: called with lines for the user.

    Raises:
        ConfigError: if the folder is damaged, or names a game that the user has not named.
    """
    if is_file(folder / SWEEP):
        return
    with closing(Claim(folder)):
        if is_file(folder / SWEEP):  # written since
            return
        game = named.games[0] if named.games else None
        if is_file(folder / SEEDS):
            _convert_plan(folder, game)
        else:
            _convert_seeds(folder, game, say)


def _convert_plan(folder: Path, game: str | None) -> None:
    """Turn seeds.json into the plan of a sweep."""
    old = _read(folder)
    entry = trusted_entry(folder, tomllib.loads(old["config"]), game)
    config = to_toml(resolve(tomllib.loads(old["config"]), entry.settings))
    group, changes = Group("", entry.name, {}, config, old["seal"]), old["changes"]
    for change in changes:
        group = changed_group(group, folder / f"seed-{old['seeds'][0]}", entry, change)
    write_plan(folder, old["seeds"], [group], changes[-1:] if old["pending"] else [])
    (folder / SEEDS).unlink()


def _read(folder: Path) -> Mapping[str, Any]:
    problem = ConfigError(
        f"{folder / SEEDS} is not what was written when the seeds started: put it back, or "
        "delete it to resume the seeds that have started."
    )
    try:
        content = read_with_checksum(folder / SEEDS)
    except Damaged as error:
        raise problem from error
    if content is None or not {"seeds", "config", "seal"} <= content.keys():
        raise problem
    return {"changes": [], "pending": False, **content}


def _convert_seeds(folder: Path, game: str | None, say: Callable[[str], None]) -> None:
    """Plan the seeds that have started."""
    runs = [Run(path, game) for path in seeds_of(folder)]
    say(
        f"{folder} has no {SWEEP}, so some seeds may never have started: resuming the "
        f"{len(runs)} that have."
    )
    first, seeds = runs[0], [int(run.path.name.removeprefix("seed-")) for run in runs]
    seal = read_seal(first.path) or {}
    group = Group("", first.entry.name, {}, to_toml(first.config), seal)
    write_plan(folder, seeds, [group])
