"""Calls into users' classes: seeded random numbers, and one-line errors.

Around every call, the random number generators of torch, numpy and Python are seeded from
the run's keyed streams, so that repeating the call draws the same numbers, and restored
afterwards. Any exception becomes one line that names the agent, the class and the method.
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

LOW_BITS = 2**32 - 1

_bit_generator = np.random.MT19937(0)
"""The generator behind np.random while users' code runs."""


@dataclass(frozen=True)
class UserClass:
    """A user's class, and the path it was named by."""

    path: str
    cls: type[Any]

    def build(self, agent: Agent, seed: int) -> Any:
        """Return an instance for an agent."""
        with self.calling(agent, "__init__", seed):
            return self.cls(agent.spec, agent.settings)

    @contextmanager
    def calling(self, agent: Agent, method: str, seed: int) -> Iterator[None]:
        """Wrap a call of a user's method: seed it, and turn exceptions into one line."""
        try:
            with seeded(seed), standard_state():
                yield
        except (RookeryError, *LEAVING):
            raise
        except BaseException as error:
            file = getattr(sys.modules.get(self.cls.__module__), "__file__", None)
            line = line_in(Path(file), error) if file else ""
            raise self.error(
                agent, method, f"raised {cut(describe_error(error))}{line}"
            ) from error

    def error(self, agent: Agent, method: str, problem: str) -> AlgorithmError:
        """Return an error that names agent, class and method."""
        return AlgorithmError(f"agent '{agent.id}': {self.path}.{method} {problem}")


def seed_of(stream: Stream, key: tuple[Array | int, ...], draw: int) -> int:
    """Return a 64-bit seed for one key of a stream."""
    low, high = stream.bits(key, draw, 2)[0].tolist()
    return int(low | high << 32)


def acting_seed(inputs: PolicyInput) -> int:
    """Return a 64-bit seed for one `act`; its draws are keyed by agent and turn."""
    low, high = (inputs.draws[0, 0] * 2.0**32).astype(np.uint64).tolist()
    return int(low | high << 32)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed torch, np.random and random inside the block, and restore them after it."""
    # Not torch.random.fork_rng and np.random.get_state: they take a hundred times longer.
    generator = torch.default_generator
    before = generator.get_state(), get_bit_generator(), random.getstate()
    try:
        generator.manual_seed(seed)
        set_bit_generator(_bit_generator)
        np.random.seed(seed & LOW_BITS)
        random.seed(seed)
        yield
    finally:
        generator.set_state(before[0])
        set_bit_generator(before[1])
        random.setstate(before[2])
