"""What a machine computes with: versions, processor, cores, memory, and its bits.

Two machines with the same versions can round differently. So what decides is the hash of
some updates, acts and turns at the shapes of a run; see `training.bits`.
"""

from __future__ import annotations

import hashlib
import json
import socket
import sys
from collections.abc import Mapping
from typing import Any

from rookery.algorithms.torch_setup import standard_state
from rookery.config.run import Config
from rookery.games.registry import Entry
from rookery.runs.configure import configure
from rookery.runs.seal import DECIDES_BITS, machine
from rookery.shm.block import available
from rookery.training.autoscale import cores
from rookery.training.training import Training

GAME = "treasurehunt"
"""The game at whose default shapes machines are compared without a sweep."""
ALGORITHMS = ("iqn", "ppo")
"""One whose loops are compiled by numba, and one that torch computes."""
COMPARED = ("rookery", "python", *DECIDES_BITS)
LABELS = {"arithmetic": "Rookery's arithmetic version", "python": "Python"}
Facts = dict[str, Any]


def facts(bits: str) -> Facts:
    """Return what this machine computes with.

    Args:
        bits: the hash of what it computes.
    """
    return {
        "host": socket.gethostname(),
        "cores": cores(),
        "free_bytes": available(),
        "python": ".".join(map(str, sys.version_info[:2])),
        **machine(bits),
    }


@standard_state()
def bits_for(entry: Entry, config: Config) -> str:
    """Return the hash of what this machine computes at the shapes of a run.

    It is the same for all seeds of the run.
    """
    training = Training.build(entry, config.model_copy(update={"seed": 0}))
    training.close()
    return training.bits


def default_facts() -> Facts:
    """Return what this machine computes with, at the default shapes of a built-in game."""
    chain = hashlib.sha256()
    for algorithm in ALGORITHMS:
        chain.update(bits_for(*configure(GAME, [f"algorithm={algorithm}"])).encode())
    return facts(chain.hexdigest())


def difference(here: Mapping[str, Any], there: Mapping[str, Any]) -> str:
    """Return in words why another machine computes something else; '' if it does not."""
    for key in COMPARED:
        if here.get(key) != there.get(key):
            label = LABELS.get(key, key)
            return f"it has {label} {there.get(key)}, and this machine has {here.get(key)}"
    if here["bits"] != there["bits"]:
        names = f"({there['processor']}) than this machine ({here['processor']})"
        if there["processor"] == here["processor"]:
            names = f"than this machine, although both have {here['processor']}"
        return f"it computes other bits {names}"
    return ""


def main() -> None:
    """Print the facts of this machine as one line of JSON."""
    print(json.dumps(default_facts()), flush=True)
