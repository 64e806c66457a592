"""`rookery.list_runs` and `rookery.diff`: runs on disk, listed and compared."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rookery.config.messages import dotted, shown
from rookery.config.toml import read_toml
from rookery.runs.folder import CONFIG, RUNS, no_run
from rookery.runs.listing import SEAL, RunInfo, list_folder, read_info
from rookery.storage.access import is_file

Pair = tuple[Any, Any]
"""A value of the first run, and of the second; None where a run has no such value."""


def list_runs(folder: str | Path = RUNS) -> list[RunInfo]:
    """List the runs in a folder, and in the folders within it, with state and score.

    Neither games nor torch are imported. For a table in pandas:
    `pandas.DataFrame(run.to_json() for run in rookery.list_runs())`.

    Args:
        folder: where to look; runs/ by default.
    """
    return list_folder(Path(folder))


@dataclass(frozen=True)
class Differences:
    """How two runs differ: names, each with the value of the first and of the second."""

    settings: dict[str, Pair] = field(default_factory=dict)
    """Settings, by dotted name."""
    software: dict[str, Pair] = field(default_factory=dict)
    """Versions of the software, and the processor."""
    files: dict[str, Pair] = field(default_factory=dict)
    """SHA-256 of the user's files, and of the agents that were started from."""
    results: dict[str, Pair] = field(default_factory=dict)
    """State, rounds and score."""

    def __repr__(self) -> str:
        lines = [
            f"{name}: {shown_or_dash(first)} → {shown_or_dash(second)}"
            for group in self.groups().values()
            for name, (first, second) in group.items()
        ]
        return "\n".join(lines) or "no differences"

    def groups(self) -> dict[str, dict[str, Pair]]:
        """Return the differences by what they are about."""
        return {name: dict(pairs) for name, pairs in vars(self).items()}

    def to_json(self) -> dict[str, Any]:
        """Return the differences as plain data."""
        return asdict(self)


def diff(first: str | Path, second: str | Path) -> Differences:
    """Compare two runs: settings, software, the user's files, and results.

    Args:
        first: the folder of a run.
        second: the folder of another run.
    """
    runs = [_described(Path(path)) for path in (first, second)]
    parts = {part: _differing(*(run[part] for run in runs)) for part in runs[0]}
    if parts["settings"]:  # bits are those of one shape of run
        parts["software"].pop("bits", None)
    return Differences(**parts)


def shown_or_dash(value: Any) -> str:
    """Return a value of a run as in messages; a dash if the run has none."""
    return "–" if value is None else shown(value)


def _described(path: Path) -> dict[str, dict[str, Any]]:
    """Return what is compared of a run, by the fields of `Differences`."""
    if not is_file(path / CONFIG):
        raise no_run(path)
    tree = read_toml(path / CONFIG)
    info = read_info(path, tree)
    if info is None:
        raise no_run(path)
    seal = _read_seal(path)
    sums = {f"agents.{agent}.from": total for agent, total in seal.get("from", {}).items()}
    results = {"state": info.state, "rounds": info.round, "score": info.score}
    return {
        "settings": _flat(tree),
        "software": dict(seal.get("begun", {})),
        "files": {**seal.get("files", {}), **sums},
        "results": results,
    }


def _read_seal(path: Path) -> dict[str, Any]:
    """Return the seal of a run; nothing for runs that have none, or a damaged one."""
    try:
        seal = json.loads((path / SEAL).read_text())
    except (OSError, ValueError):
        return {}
    return seal if isinstance(seal, dict) else {}


def _flat(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            settings |= _flat(value, (*path, key))
        else:
            settings[dotted((*path, key))] = value
    return settings


def _differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Pair]:
    names = dict.fromkeys([*first, *second])
    return {
        name: (first.get(name), second.get(name))
        for name in names
        if first.get(name) != second.get(name)
    }
