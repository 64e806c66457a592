"""JSON files that contain their own checksum."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rookery.storage.access import cannot_write, is_file
from rookery.storage.arrays import Damaged, opened, parse_json
from rookery.storage.checkpoints import sum_of_manifest
from rookery.storage.files import replace_whole


def write_with_checksum(path: Path, content: Mapping[str, Any]) -> dict[str, Any]:
    """Write a JSON file with its own checksum, durably, and return its content.

    Raises:
        ConfigError: if it cannot be written.
    """
    summed = {**content, "sum": sum_of_manifest(content)}
    try:
        replace_whole(path, json.dumps(summed, indent=2).encode())
    except OSError as error:
        raise cannot_write(path, error) from error
    return summed


def read_with_checksum(path: Path) -> dict[str, Any] | None:
    """Return what `write_with_checksum` wrote; None if there is no such file.

    Raises:
        Damaged: if the file was changed or damaged.
    """
    if not is_file(path):
        return None
    with opened(path) as file:
        data = file.read()
    content = parse_json(data)
    if not isinstance(content, dict) or content.get("sum") != sum_of_manifest(content):
        raise Damaged("it is not what was written")
    return content
