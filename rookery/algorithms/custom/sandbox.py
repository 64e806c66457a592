"""Users' own classes, called with care.

Around every call the random numbers of torch, numpy and Python are keyed, so that what is
repeated draws the same, and the user's own streams are put back afterwards. Whatever the
code raises becomes one line that names the agent, the class and the method.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.random.mtrand import get_bit_generator, set_bit_generator

from rookery.algorithms.base import Agent, PolicyInput
from rookery.algorithms.torch_setup import standard_state
from rookery.config.messages import cut
from rookery.errors import AlgorithmError, RookeryError
from rookery.plugins import describe_error, line_in
from rookery.rng import Stream
from rookery.specs import Array
from rookery.stop import LEAVING

LOW = 2**32 - 1

_numbers = np.random.MT19937(0)
"""What np.random draws from while users' code runs."""


@dataclass(frozen=True)
class Code:
    """A user's class, and the path it was named by."""

    name: str
    made: type[Any]

    def build(self, agent: Agent, seed: int) -> Any:
        """Return an instance for an agent."""
        with self.running(agent, "__init__", seed):
            return self.made(agent.spec, agent.settings)

    @contextmanager
    def running(self, agent: Agent, method: str, seed: int) -> Iterator[None]:
        """Run a method of the user's with keyed numbers; translate what it raises."""
        try:
            with keyed(seed), standard_state():
                yield
        except (RookeryError, *LEAVING):
            raise
        except BaseException as error:
            file = getattr(sys.modules.get(self.made.__module__), "__file__", None)
            line = line_in(Path(file), error) if file else ""
            raise self.error(
                agent, method, f"raised {cut(describe_error(error))}{line}"
            ) from error

    def error(self, agent: Agent, method: str, what: str) -> AlgorithmError:
        """Return an error that says where: agent, class and method."""
        return AlgorithmError(f"agent '{agent.spec.id}': {self.name}.{method} {what}")


def seed_of(stream: Stream, place: tuple[Array | int, ...], draw: int) -> int:
    """Return 64 bits for one place in a stream."""
    low, high = stream.bits(place, draw, 2)[0].tolist()
    return int(low | high << 32)


def seed_at(moment: PolicyInput) -> int:
    """Return 64 bits for a moment to act: its draws are keyed by agent and turn."""
    low, high = (moment.draws[0, 0] * 2.0**32).astype(np.uint64).tolist()
    return int(low | high << 32)


@contextmanager
def keyed(seed: int) -> Iterator[None]:
    """Let torch, np.random and random draw from `seed` for a while."""
    # Not torch.random.fork_rng and np.random.get_state: they take a hundred times longer.
    generator = torch.default_generator
    before = generator.get_state(), get_bit_generator(), random.getstate()
    try:
        generator.manual_seed(seed)
        set_bit_generator(_numbers)
        np.random.seed(seed & LOW)
        random.seed(seed)
        yield
    finally:
        generator.set_state(before[0])
        set_bit_generator(before[1])
        random.setstate(before[2])
