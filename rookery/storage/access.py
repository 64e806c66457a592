"""Looking at files that may be anybody's: what is forbidden is an error of one line."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from rookery.errors import ConfigError, advice
from rookery.storage.files import remedy


def is_file(path: Path) -> bool:
    """Whether there is such a file.

    Raises:
        ConfigError: if one may not look.
    """
    return stat.S_ISREG(_mode(path))


def is_folder(path: Path) -> bool:
    """Whether there is such a folder.

    Raises:
        ConfigError: if one may not look.
    """
    return stat.S_ISDIR(_mode(path))


def _mode(path: Path) -> int:
    """Return what kind of file a path is; 0 if there is none, or can be none."""
    try:
        return path.stat().st_mode
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        if isinstance(error, PermissionError):
            raise cannot_read(path, error) from error
        return 0


def entries(folder: Path) -> list[Path]:
    """Return what lies in a folder; nothing if there is none.

    Raises:
        ConfigError: if one may not look.
    """
    if not is_folder(folder):
        return []
    try:
        return [folder / name for name in sorted(os.listdir(folder))]
    except OSError as error:
        raise cannot_read(folder, error) from error


def cannot_read(path: Path, error: OSError) -> ConfigError:
    """Return the error for what may not, or can not, be read."""
    what = f"cannot read {error.filename or path} ({error.strerror})"
    if isinstance(error, PermissionError):
        return ConfigError(f"{what}: ask its owner for access, or change its permissions.")
    return ConfigError(f"{what}: {advice(error) or 'see that it is there and whole.'}")


def cannot_write(path: Path, error: OSError) -> ConfigError:
    """Return the error for what may not, or can not, be written."""
    reason = error.strerror or str(error)
    return ConfigError(
        f"cannot write {error.filename or path} ({reason}): {remedy(reason)}, or choose "
        "another folder."
    )
