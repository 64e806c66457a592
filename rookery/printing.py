"""Printing to the terminal.

Ids, names and paths come from the user, so markup within text is never interpreted; styles
are passed separately.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

from rich.console import Console

from rookery.stdio import take_lost

out = Console(markup=False, emoji=False, highlight=False)
err = Console(markup=False, emoji=False, highlight=False, stderr=True)


def say(line: str) -> None:
    """Print one line on standard error; line breaks become spaces."""
    err.print(" ".join(line.splitlines()), soft_wrap=True)


def tell(text: str, **style: Any) -> None:
    """Print text on standard output without wrapping its lines."""
    out.print(text, soft_wrap=True, **style)


def print_json(value: Any) -> None:
    """Print one object on standard output as JSON."""
    take_lost()
    print(json.dumps(value, indent=2))


def command(*arguments: object) -> str:
    """Return a `rookery` command that can be pasted into a shell."""
    return shlex.join(["rookery", *map(str, arguments)])
