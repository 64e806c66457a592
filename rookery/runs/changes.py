"""The history of a run's settings: what was changed on resume, and after which round.

changes.json is written before config.toml is. A process that is killed between the two
leaves a config.toml that the newest change says it replaces; the next resume replaces it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from rookery.config.run import Config
from rookery.config.toml import to_toml
from rookery.errors import ConfigError
from rookery.runs.changeable import UNSEALED
from rookery.runs.claim import Claim
from rookery.runs.folder import CONFIG
from rookery.storage.access import cannot_read, cannot_write
from rookery.storage.arrays import Damaged
from rookery.storage.files import replace_whole
from rookery.storage.summed_json import read_with_checksum, write_with_checksum

CHANGES = "changes.json"

Differences = dict[str, tuple[Any, Any]]
"""Settings by dotted name, with their old and new values."""


class Change(BaseModel):
    """Settings that were changed at once."""

    time: float
    round: int
    """The last round that was trained with the old settings."""
    settings: Differences
    inexact: str = ""
    """Why the run is not exact from here on; '' if it is."""


class History(BaseModel):
    """All changes of a run's settings, in order."""

    changes: list[Change] = []
    config: str = ""
    """What the newest change writes to config.toml."""
    replaces: str = ""
    """The SHA-256 of the config.toml that it replaces."""
    planned: int = 0
    """How many of the changes in the plan of its sweep the run has."""

    def overlay(self, sealed: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """Return sealed settings as config.toml should have them now."""
        settings = dict(sealed)
        changes = self.changes[:-1] if self.is_pending(folder) else self.changes
        for change in changes:
            for key, (_, new) in change.settings.items():
                if new is None and key.startswith("agents."):  # as for all agents
                    settings.pop(key, None)
                elif key not in UNSEALED:
                    settings[key] = new
        return settings

    def why_inexact(self) -> str:
        """Return why changes have made the run inexact; '' if they have not."""
        reasons = [change.inexact for change in self.changes if change.inexact]
        return f"{reasons[0]}, and the run is marked as not exact." if reasons else ""

    def is_pending(self, folder: Path) -> bool:
        """Whether config.toml is still the one that the newest change replaces."""
        return bool(self.changes) and _checksum(folder) == self.replaces


def read_history(folder: Path) -> History:
    """Return the history of a run's settings.

    Raises:
        ConfigError: if the file was changed or damaged.
    """
    try:
        return History.model_validate(read_with_checksum(folder / CHANGES) or {})
    except (Damaged, ValidationError) as error:
        raise ConfigError(
            f"{folder / CHANGES} is not what was written when settings were changed: put "
            "it back."
        ) from error


def write_change(
    folder: Path, config: Config, change: Change, planned: int | None = None
) -> None:
    """Add a change to a run's history, and write its new config.toml, both durably.

    Args:
        folder: of the run.
        config: the new configuration.
        change: how it differs from the old one.
        planned: how many changes in the plan of its sweep it contains, if it is from there.

    Raises:
        ConfigError: if one cannot be written.
    """
    old = read_history(folder)
    history = History(
        changes=[*old.changes, change],
        config=to_toml(config),
        replaces=_checksum(folder),
        planned=old.planned if planned is None else planned,
    )
    _write_history(folder, history)
    _replace_config(folder, history)


def write_planned(folder: Path, planned: int) -> None:
    """Write into a run's history how many changes in the plan of its sweep it has.

    Raises:
        ConfigError: if it cannot be written.
    """
    history = read_history(folder)
    if planned != history.planned:
        _write_history(folder, history.model_copy(update={"planned": planned}))


def _write_history(folder: Path, history: History) -> None:
    write_with_checksum(folder / CHANGES, history.model_dump(mode="json"))


def finish_change(folder: Path) -> None:
    """Write the config.toml of a change whose process was killed before it did.

    Raises:
        ConfigError: if it cannot be written, or another process uses the run.
    """
    history = read_history(folder)
    if history.is_pending(folder):
        with closing(Claim(folder)):
            _replace_config(folder, history)


def _replace_config(folder: Path, history: History) -> None:
    try:
        replace_whole(folder / CONFIG, history.config.encode())
    except OSError as error:
        raise cannot_write(folder / CONFIG, error) from error


def _checksum(folder: Path) -> str:
    """Return the SHA-256 of a run's config.toml."""
    try:
        return sha256((folder / CONFIG).read_bytes()).hexdigest()
    except OSError as error:
        raise cannot_read(folder / CONFIG, error) from error
