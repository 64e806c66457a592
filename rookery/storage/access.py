"""Looking at files that can belong to other users: no access is an error of one line."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rookery.errors import ConfigError, advice
from rookery.storage.files import remedy


def is_file(path: Path) -> bool:
    """Whether a path is a file.

    Raises:
        ConfigError: if permission is denied.
    """
    return stat.S_ISREG(_mode(path))


def is_folder(path: Path) -> bool:
    """Whether a path is a folder.

    Raises:
        ConfigError: if permission is denied.
    """
    return stat.S_ISDIR(_mode(path))


def _mode(path: Path) -> int:
    """Return the mode of a file; 0 if there is none, or the path is impossible."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        if isinstance(error, PermissionError):
            raise cannot_read(path, error) from error
        return 0


def entries(folder: Path) -> list[Path]:
    """Return the paths in a folder, sorted; none if there is no such folder.

    Raises:
        ConfigError: if permission is denied.
    """
    if not is_folder(folder):
        return []
    try:
        return [folder / name for name in sorted(os.listdir(folder))]
    except OSError as error:
        raise cannot_read(folder, error) from error


def cannot_read(path: Path, error: OSError) -> ConfigError:
    """Return the error to raise for a file that cannot be read."""
    problem = f"cannot read {error.filename or path} ({error.strerror})"
    if isinstance(error, PermissionError):
        action = "ask its owner for access, or change its permissions."
    else:
        action = advice(error) or "check that it exists and is not damaged."
    return ConfigError(f"{problem}: {action}")


def cannot_write(path: Path, error: OSError) -> ConfigError:
    """Return the error to raise for a file that cannot be written."""
    reason = error.strerror or str(error)
    return ConfigError(
        f"cannot write {error.filename or path} ({reason}): {remedy(reason)}, or choose "
        "another folder."
    )
