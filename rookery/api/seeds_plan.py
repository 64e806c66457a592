"""The plan of a folder of seeds: which there are, their settings, and changes of them.

seeds.json holds the settings that all seeds start with, and every change on resume. A
change is in the plan before it is in a seed, so that all seeds get it, whenever the process
that makes it is killed.
"""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from rookery.config.parse import plain
from rookery.config.resolve import resolve
from rookery.config.run import Config
from rookery.config.toml import to_toml, write_config
from rookery.errors import ConfigError
from rookery.evaluation.play import agents_of
from rookery.evaluation.probes import probe_of
from rookery.games.registry import Entry
from rookery.runs.agent_files import origin_checksum, origins_of
from rookery.runs.claim import Claim
from rookery.runs.folder import CONFIG, SEEDS, new_run, seeds_of
from rookery.runs.resume import (
    change_run,
    describe_change,
    refuse_fewer_rounds,
    resumed_config,
)
from rookery.runs.run import Run, trusted_entry
from rookery.runs.seal import seal_of, write_seal
from rookery.storage.access import is_folder
from rookery.storage.arrays import Damaged
from rookery.storage.files import rename_durably
from rookery.storage.summed_json import read_with_checksum, write_with_checksum

Plan = dict[str, Any]


def new_seeds(
    entry: Entry, config: Config, folder: Path | None, seeds: Sequence[int]
) -> Path:
    """Create the folder of some seeds, with what resuming them needs, and return it."""
    plan = _plan(seeds, entry, config)
    parent = new_run(folder, entry.name)
    write_with_checksum(parent / SEEDS, plan)
    return parent


def _plan(seeds: Sequence[int], entry: Entry, config: Config) -> Plan:
    """Return the list of seeds with their common configuration and seal."""
    agents = agents_of(entry, config)
    origins = {
        agent: origin_checksum(origin)
        for agent, origin in origins_of(config, agents).items()
    }
    seal = seal_of(config, [spec.id for spec in agents], origins)
    return {"seeds": list(seeds), "config": to_toml(config), "seal": seal}


def _read_plan(parent: Path) -> Plan | None:
    """Return the plan that was written at the start; None if there is none.

    Raises:
        ConfigError: if the file was changed or damaged.
    """
    try:
        return read_with_checksum(parent / SEEDS)
    except Damaged as error:
        raise ConfigError(
            f"{parent / SEEDS} is not what was written when the seeds started: put it "
            "back, or delete it to resume the seeds that have started."
        ) from error


class SeedsPlan:
    """The plan of a folder of seeds, which is locked.

    Args:
        path: the folder.
        game: its name, if it is not built in.
        algorithms: those that are not built in.
        probes: code of probes that the user has named.
        say: called with lines for the user.
    """

    def __init__(
        self,
        path: Path,
        game: str | None,
        algorithms: Sequence[str],
        probes: Sequence[str],
        say: Callable[[str], None],
    ) -> None:
        self._path, self._say = path, say
        self._game, self._algorithms, self._probes = game, algorithms, probes
        self._plan = _read_plan(path)

    def prepare(self, settings: Mapping[str, Any]) -> list[int]:
        """Return all seeds, after creating those not started, and changing settings.

        Raises:
            ConfigError: if a seed cannot have these settings; then none gets them.
        """
        started = [_number(folder) for folder in seeds_of(self._path)]
        if self._plan is None:
            self._say(
                f"{self._path} has no {SEEDS}, so some seeds may never have started: "
                f"resuming the {len(started)} that have."
            )
        plan: Plan = self._plan or {"seeds": started}
        missing = [seed for seed in plan["seeds"] if seed not in started]
        if missing:
            self._say(f"starting the remaining seeds: {', '.join(map(str, missing))}")
            self._start(missing, plan)
        if plan.get("pending"):  # the process was killed while it changed the seeds
            self._change_all(plan)
        if changes := plain(settings, (), {}):
            self._check(changes)
            plan |= {"changes": [*plan.get("changes", ()), changes], "pending": True}
            self._change_all(plan)
        return sorted([*started, *missing])

    def _open(self, folder: Path) -> Run:
        return Run(folder, self._game, self._algorithms)

    def _check(self, settings: Mapping[str, Any]) -> None:
        """Refuse settings that a seed cannot have, before any seed gets them."""
        for folder in seeds_of(self._path):
            run = self._open(folder)
            config = resumed_config(run, settings=settings, probes=self._probes)
            refuse_fewer_rounds(folder, run.config, config)
            probe_of(config)

    def _change_all(self, plan: Plan) -> None:
        """Write a plan whose last change is pending, then the change in every seed."""
        if self._plan is not None:
            write_with_checksum(self._path / SEEDS, plan)
        changes = [
            change_run(self._open(folder), plan["changes"][-1], self._probes)
            for folder in seeds_of(self._path)
        ]
        if change := next(filter(None, changes), None):
            self._say(describe_change(change))
        del plan["pending"]
        if self._plan is not None:
            write_with_checksum(self._path / SEEDS, plan)

    def _start(self, seeds: Sequence[int], plan: Plan) -> None:
        """Create the folders of seeds that had not started, with all earlier changes."""
        tree = tomllib.loads(plan["config"])
        settings = trusted_entry(self._path, tree, self._game).settings
        for seed in seeds:
            folder, partial = self._path / f"seed-{seed}", self._path / f".seed-{seed}"
            for old in filter(is_folder, (folder, partial)):
                with closing(Claim(old)):
                    shutil.rmtree(old)  # killed before it became a run
            partial.mkdir()
            sealed = {**plan["seal"]["settings"], "seed": seed}
            write_seal(partial, {**plan["seal"], "settings": sealed})
            write_config(resolve({**tree, "seed": seed}, settings), partial / CONFIG)
            for change in plan.get("changes", ()):
                change_run(self._open(partial), change, self._probes)
            rename_durably(partial, folder)


def _number(folder: Path) -> int:
    return int(folder.name.removeprefix("seed-"))
