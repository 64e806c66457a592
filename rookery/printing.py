"""What everybody prints with: one place decides how text gets to the terminal.

Ids, names and paths are the user's: whatever looks like markup in them is printed as it
is. Styles are given beside the text, never within it.
"""

from __future__ import annotations

import json
import shlex
from typing import Any

from rich.console import Console

from rookery.streams import take_lost

out = Console(markup=False, emoji=False, highlight=False)
err = Console(markup=False, emoji=False, highlight=False, stderr=True)


def say(line: str) -> None:
    """Print one line on standard error, whatever breaks lines in it."""
    err.print(" ".join(line.splitlines()), soft_wrap=True)


def tell(text: str, **style: Any) -> None:
    """Print text on standard output with the lines that it has, however long."""
    out.print(text, soft_wrap=True, **style)


def print_json(value: Any) -> None:
    """Print one object on standard output, which is all that counts there."""
    take_lost()
    print(json.dumps(value, indent=2))


def command(*words: object) -> str:
    """Return a command of ours as it can be pasted into a shell."""
    return shlex.join(["rookery", *map(str, words)])
