"""A game and an algorithm that fail when a test requests it, in whichever process they run.

A test requests a fault by creating a file in the folder FAULTS: `game-kill`, `game-raise`,
`learner-kill` or `learner-raise`. The process that fails removes the file first, so it
happens once; `learner-kill-always` stays. `learner-kill-PID` kills that process and no
other. While the file `inspect` exists, every process appends facts about itself to a file
of its own.
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


def fail_if_requested(kind):
    folder = Path(os.environ.get("FAULTS", "/nonexistent"))
    if (folder / "inspect").exists():
        facts = {
            "kind": kind,
            "pid": os.getpid(),
            "threads": [thread.name for thread in threading.enumerate()],
            "knows games": "rookery.games.gridworld" in sys.modules,
        }
        with (folder / f"inspect-{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps(facts) + "\n")
    if take(folder / f"{kind}-raise"):
        raise ValueError("requested by a test")
    requests = [folder / f"{kind}-kill", folder / f"{kind}-kill-{os.getpid()}"]
    if any(map(take, requests)) or (folder / f"{kind}-kill-always").exists():
        os.kill(os.getpid(), signal.SIGKILL)


def take(request):
    """Remove a request; return whether it existed."""
    try:
        request.unlink()
    except FileNotFoundError:
        return False
    return True


class Rooms(grid.GridGame):
    """Pick berries that grow back; every agent has its own room."""

    map = """
#############
#P..#####..P#
#...#####...#
#############"""

    def declare(self) -> None:
        self.wall = grid.Kind(solid=True, layer="walls", char="#")
        self.berry = grid.Kind(value=1.0, layer="berries")
        self.picker = grid.Body(grid.MOVES, sees={"view": grid.Window(2)})
        self.turns_played = 0

    def before(self, world: grid.World) -> None:
        self.turns_played += 1
        if self.turns_played % 10 == 6:  # in the middle of a round
            fail_if_requested("game")
        world.sprinkle(self.berry, chance=0.1)

    def act(self, world: grid.World, me: grid.Me) -> None:
        me.move()
        me.reward += world.value(me.cell)
        world.clear(me.cell, layer="berries")


class Forgetful(grid.GridEngine):
    """Rooms without snapshots."""

    Settings = Rooms.Settings
    snapshot, restore = Game.snapshot, Game.restore

    def __init__(self, settings, worlds, seed, first_world=0):
        super().__init__(Rooms(settings), worlds, seed, first_world)


class LinearQ:
    """Q-learning with values that are linear in the observation."""

    def __init__(self, spec, settings):
        self.id, self.rate = spec.id, settings.learning_rate
        inputs = sum(np.prod(part.shape) for part in spec.parts.values())
        self.table = np.zeros((settings.frames * inputs + 1, spec.num_actions))

    def values(self, seen):
        return flat(seen) @ self.table

    def update(self, batch):
        targets = batch.returns + batch.discounts * self.values(batch.next_seen).max(1)
        inputs, rows = flat(batch.seen), np.arange(len(batch.actions))
        errors = np.zeros((len(rows), self.table.shape[1]))
        errors[rows, batch.actions] = targets - (inputs @ self.table)[rows, batch.actions]
        self.table += self.rate * inputs.T @ errors
        if self.id == "1":  # agent 0 has already learned; this round is half-made
            fail_if_requested("learner")
        return {"loss": np.square(errors).mean()}

    def state(self):
        return {"table": self.table}

    def load(self, state):
        self.table = state["table"]


def flat(seen):
    parts = [part.reshape(len(part), -1) for part in seen.values()]
    return np.concatenate([*parts, np.ones((len(parts[0]), 1))], axis=1)
