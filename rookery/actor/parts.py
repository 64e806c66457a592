"""`RunParts`: what the components of a run are built from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from rookery.algorithms.base import Agent
from rookery.games.registry import Entry
from rookery.protocol.arena import Arena
from rookery.protocol.process_spec import ProcessSpec
from rookery.protocol.schedule import RoundSchedule
from rookery.stop import StopFlag
from rookery.supervisor.supervisor import Tell


@dataclass(frozen=True)
class RunParts:
    """The parts of one run, in the main process or in the actor's.

    A learner does not get this object, but only the parts it needs: it knows no game.
    """

    entry: Entry
    process_spec: ProcessSpec
    agents: Sequence[Agent]
    arena: Arena
    schedule: RoundSchedule
    stop: StopFlag = field(default_factory=StopFlag)
    tell: Tell = lambda *event, **details: None
    """Called with every event of the run."""
