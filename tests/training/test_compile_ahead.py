"""The copy of a process that compiles loops on a second core."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from rookery.algorithms.agents import build_agents
from rookery.algorithms.grouping import groups_of
from rookery.games.guard import GuardedGame
from rookery.runs.configure import configure
from rookery.training import compile_ahead as module
from tests.small import HUNT

Ahead = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def game() -> Iterator[GuardedGame]:
    entry, config = configure("treasurehunt", settings=HUNT)
    game = entry.build_guarded(config.game.settings, config.worlds, config.seed)
    yield game
    game.close()


@pytest.fixture
def ahead(game: GuardedGame, monkeypatch: pytest.MonkeyPatch) -> Ahead:
    """As on a new machine with two cores, in a process with a single thread."""
    entry, config = configure("treasurehunt", settings=HUNT)
    groups = groups_of(build_agents(config, game.agents))
    monkeypatch.setattr(module, "is_to_be_cached", lambda function: True)
    monkeypatch.setattr(module, "cores", lambda: 2)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    return lambda: module.compile_ahead(entry, game, groups, config)


def in_the_copy(monkeypatch: pytest.MonkeyPatch, play: Callable[[], None]) -> None:
    monkeypatch.setattr(module, "_play", lambda *arguments: play())


def test_a_copy_of_the_process_acts_while_the_original_goes_on(
    ahead: Ahead, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def act(*arguments: object) -> None:
        (tmp_path / "acted").write_text(str(os.getpid()))

    monkeypatch.setattr(module, "acts_in_shares", act)
    with ahead():
        pass
    assert int((tmp_path / "acted").read_text()) != os.getpid()


def test_the_copy_plays_a_copy_of_the_game(
    ahead: Ahead, game: GuardedGame, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = {name: array.tobytes() for name, array in game.snapshot().items()}
    original = module._play

    def play(*arguments: object) -> None:
        original(*arguments)  # type: ignore[arg-type]
        after = {name: array.tobytes() for name, array in game.snapshot().items()}
        (tmp_path / "played").write_text(str(after != before))

    monkeypatch.setattr(module, "_play", play)
    with ahead():
        pass
    assert (tmp_path / "played").read_text() == "True"
    assert {name: array.tobytes() for name, array in game.snapshot().items()} == before


def test_what_the_copy_prints_and_raises_is_not_seen(
    ahead: Ahead, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def play() -> None:
        os.write(1, b"printed")
        os.write(2, b"printed")
        raise SystemExit("a mistake in the game")

    in_the_copy(monkeypatch, play)
    with ahead():
        pass
    assert capfd.readouterr() == ("", "")


def test_a_copy_that_hangs_is_killed(ahead: Ahead, monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_copy(monkeypatch, signal.pause)
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.05)
    with ahead():
        pass
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_an_error_in_the_original_ends_the_copy(
    ahead: Ahead, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_copy(monkeypatch, signal.pause)
    with pytest.raises(KeyboardInterrupt), ahead():
        raise KeyboardInterrupt
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        (module, "is_to_be_cached", lambda function: False),
        (module, "cores", lambda: 1),
        (threading, "active_count", lambda: 2),
    ],
    ids=["loops are compiled", "one core", "two threads"],
)
def test_no_copy_is_made_if(
    place: object,
    name: str,
    value: Callable[..., object],
    ahead: Ahead,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(place, name, value)
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("a copy was made"))
    with ahead():
        pass
