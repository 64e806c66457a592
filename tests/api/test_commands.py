"""What the command line can do, Python can do, too."""

from __future__ import annotations

import rookery
from rookery.cli.app import app

FUNCTIONS = {
    "bench": "run_bench",
    "check": "check",
    "crossplay": "crossplay",
    "describe": "describe",
    "diff": "diff",
    "digest": "digest",
    "evaluate": "evaluate",
    "export": "export",
    "games": "list_games",
    "health": "health",
    "independence": "independence",
    "nodes": "nodes",
    "record": "record",
    "replay": "replay",
    "reproduce": "reproduce",
    "resume": "resume",
    "runs": "list_runs",
    "settings": "settings",
    "train": "train",
}
"""The name in Python of every command."""


def commands() -> set[str]:
    """Return the names of all commands."""
    registered = (command.callback for command in app.registered_commands)
    return {callback.__name__ for callback in registered if callback}


def test_every_command_has_a_function() -> None:
    missing = commands() - FUNCTIONS.keys()
    assert not missing, f"add a function of the same name: {', '.join(missing)}"

    for name in commands():
        assert callable(getattr(rookery, FUNCTIONS[name])), name
        assert FUNCTIONS[name] in rookery.__all__


def test_every_function_is_that_of_a_command() -> None:
    assert FUNCTIONS.keys() <= commands()
