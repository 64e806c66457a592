"""A game and an algorithm that do what a test asks for, once, in whichever process.

Files in the folder TRAPS ask for it: `game-kill`, `game-raise`, `learner-kill`,
`learner-raise`; whoever springs a trap removes it first. `learner-kill-always` stays.
While `spy` is there, everybody writes down what its process is like.
"""

import json
import os
import signal
import sys
import threading
from pathlib import Path

import numpy as np

from rookery.games import gridworld as grid
from rookery.games.base import Game


def haunt(kind):
    folder = Path(os.environ.get("TRAPS", "/nonexistent"))
    if (folder / "spy").exists():
        about = {
            "kind": kind,
            "pid": os.getpid(),
            "threads": [thread.name for thread in threading.enumerate()],
            "knows games": "rookery.games.gridworld" in sys.modules,
        }
        with (folder / f"spy-{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps(about) + "\n")
    if is_sprung(folder / f"{kind}-raise"):
        raise ValueError("boo")
    if is_sprung(folder / f"{kind}-kill") or (folder / f"{kind}-kill-always").exists():
        os.kill(os.getpid(), signal.SIGKILL)


def is_sprung(trap):
    try:
        trap.unlink()
    except FileNotFoundError:
        return False
    return True


class Rooms(grid.GridGame):
    """Pick berries that grow back, each in a room of one's own."""

    map = """
#############
#P..#####..P#
#...#####...#
#############"""

    def declare(self) -> None:
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.berry = grid.Kind(value=1.0, layer="berries")
        self.picker = grid.Body(grid.MOVES, sees={"view": grid.Window(2)})
        self.turns_here = 0

    def before(self, world: grid.World) -> None:
        self.turns_here += 1
        if self.turns_here % 10 == 6:  # in the middle of a round
            haunt("game")
        world.sprinkle(self.berry, chance=0.1)

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.move()
        me.reward += world.value(me.cell)
        world.clear(me.cell, layer="berries")


class Forgetful(grid.GridEngine):
    """Rooms that nobody can go back to."""

    Settings = Rooms.Settings
    snapshot, restore = Game.snapshot, Game.restore

    def __init__(self, settings, worlds, seed, first_world=0):
        super().__init__(Rooms(settings), worlds, seed, first_world)


class LinearQ:
    """The values of actions are linear in what is seen."""

    def __init__(self, spec, settings):
        self.id, self.rate = spec.id, settings.learning_rate
        inputs = sum(np.prod(part.shape) for part in spec.parts.values())
        self.table = np.zeros((settings.frames * inputs + 1, spec.num_actions))

    def values(self, seen):
        return flat(seen) @ self.table

    def update(self, batch):
        if self.id == "1":  # agent 0 has been learned and published before
            haunt("learner")
        targets = batch.returns + batch.discounts * self.values(batch.next_seen).max(1)
        inputs, rows = flat(batch.seen), np.arange(len(batch.actions))
        errors = np.zeros((len(rows), self.table.shape[1]))
        errors[rows, batch.actions] = targets - (inputs @ self.table)[rows, batch.actions]
        self.table += self.rate * inputs.T @ errors
        return {"loss": np.square(errors).mean()}

    def state(self):
        return {"table": self.table}

    def load(self, state):
        self.table = state["table"]


def flat(seen):
    parts = [part.reshape(len(part), -1) for part in seen.values()]
    return np.concatenate([*parts, np.ones((len(parts[0]), 1))], axis=1)
