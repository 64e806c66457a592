from __future__ import annotations

from collections.abc import Iterator

import pytest

from rookery.shm.block import Block
from rookery.shm.counters import Counters, version_of

NAMES = ["commit", "gate", version_of("0")]


@pytest.fixture
def block() -> Iterator[Block]:
    """The memory of some counters."""
    block = Block.create(Counters.layout(NAMES))
    yield block
    block.close()


@pytest.fixture
def counters(block: Block) -> Counters:
    return Counters(block)
