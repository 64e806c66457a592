"""What a proof of independence found, in words and as plain data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

AGAIN = "nothing"
"""Where an agent was only trained again, from the same rows."""
SAME = "not one bit changed"


@dataclass(frozen=True)
class Comparison:
    """What became of one agent when another was altered."""

    agent: str
    altered: str
    """The other agent; its own id where nothing was altered, only trained again."""
    how: str
    differs: str | None
    """What was different; None: not one bit."""


@dataclass
class Independence:
    """What was compared, and what was found to be shared."""

    run: str
    agents: list[str]
    """Those that learn."""
    comparisons: list[Comparison] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    """What users' own code keeps for all agents at once, where bits differed."""
    common: list[str] = field(default_factory=list)
    """What agents have in common without affecting each other."""
    notes: list[str] = field(default_factory=list)
    """What could not be tried, and why."""

    @property
    def is_independent(self) -> bool:
        """Whether no agent had one bit changed."""
        return not self.differences

    @property
    def differences(self) -> list[Comparison]:
        """Where bits changed."""
        return [one for one in self.comparisons if one.differs is not None]

    def table(self) -> dict[str, dict[str, str]]:
        """Return agent to alteration to what it changed, in words."""
        found: dict[str, dict[str, list[str]]] = {i: defaultdict(list) for i in self.agents}
        for one in self.comparisons:
            found[one.agent][one.how] += [one.altered] if one.differs else []
        return {
            agent: {
                how: f"changed by {', '.join(by)}" if by else SAME
                for how, by in cells.items()
            }
            for agent, cells in found.items()
        }

    def lines(self) -> Iterator[str]:
        """Return everything that is to be said besides the table."""
        for one in self.differences:
            if one.how == AGAIN:
                what = "is not what it was in the run, trained from the same rows"
            else:
                what = f"changed when agent {one.altered} was altered ({one.how})"
            yield f"agent {one.agent} {what}: {one.differs}"
        yield from (f"shared: {line}" for line in self.shared)
        yield from (f"not tried: {line}" for line in self.notes)
        yield from (f"in common: {line}" for line in self.common)

    @property
    def verdict(self) -> str:
        """The result in one line."""
        if not self.is_independent:
            agents = sorted({one.agent for one in self.differences})
            return f"not independent: agents {', '.join(agents)} changed; see above."
        if len(self.agents) < 2:
            return "independent: there is no other agent that learns."
        count = len(self.comparisons)
        return f"independent: {count} comparisons, and not one bit of anybody else changed."

    def __str__(self) -> str:
        table = self.table()
        rows = [
            f"agent {agent}: {how}: {cell}"
            for agent, cells in table.items()
            for how, cell in cells.items()
        ]
        return "\n".join([*rows, *self.lines(), self.verdict])

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "run": self.run,
            "independent": self.is_independent,
            "comparisons": [vars(one) for one in self.comparisons],
            "shared": self.shared,
            "common": self.common,
            "notes": self.notes,
        }
