"""The result of a proof of independence, as text and as plain data."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

CONTROL = "nothing"
"""The variation of the control, where an agent is only trained again from its rows."""
SAME = "not one bit changed"


@dataclass(frozen=True)
class Comparison:
    """How one agent changed when another was altered."""

    agent: str
    altered: str
    """The other agent; its own id in the control."""
    how: str
    """The name of the variation."""
    differs: str | None
    """The first difference; None if not one bit changed."""


@dataclass
class Independence:
    """The comparisons that were made, and what agents were found to share."""

    run: str
    agents: list[str]
    """The agents that learn."""
    comparisons: list[Comparison] = field(default_factory=list)
    shared: list[str] = field(default_factory=list)
    """Global state of users' code that changes, where bits differed."""
    common: list[str] = field(default_factory=list)
    """What agents have in common without affecting each other."""
    notes: list[str] = field(default_factory=list)
    """What could not be tested, and why."""

    @property
    def is_independent(self) -> bool:
        """Whether not one bit of any agent changed."""
        return not self.differences

    @property
    def differences(self) -> list[Comparison]:
        """The comparisons in which bits changed."""
        return [
            comparison for comparison in self.comparisons if comparison.differs is not None
        ]

    def table(self) -> dict[str, dict[str, str]]:
        """Return the effect of every variation on every agent, as text."""
        changed_by: dict[str, dict[str, list[str]]] = {
            agent: defaultdict(list) for agent in self.agents
        }
        for comparison in self.comparisons:
            cell = changed_by[comparison.agent][comparison.how]
            cell += [comparison.altered] if comparison.differs else []
        return {
            agent: {
                how: f"changed by {', '.join(others)}" if others else SAME
                for how, others in cells.items()
            }
            for agent, cells in changed_by.items()
        }

    def lines(self) -> Iterator[str]:
        """Yield all findings that are not in the table."""
        for comparison in self.differences:
            if comparison.how == CONTROL:
                finding = "differs from the run when trained again from the same rows"
            else:
                finding = (
                    f"changed when agent {comparison.altered} was altered "
                    f"({comparison.how})"
                )
            yield f"agent {comparison.agent} {finding}: {comparison.differs}"
        yield from (f"shared: {line}" for line in self.shared)
        yield from (f"not tested: {line}" for line in self.notes)
        yield from (f"in common: {line}" for line in self.common)

    @property
    def conclusion(self) -> str:
        """The result in one line."""
        if not self.is_independent:
            agents = sorted({comparison.agent for comparison in self.differences})
            return f"not independent: agents {', '.join(agents)} changed; see above."
        if len(self.agents) < 2:
            return "independent: no other agent learns."
        count = len(self.comparisons)
        return (
            f"independent: {count} comparisons, and not one bit of any other agent changed."
        )

    def __str__(self) -> str:
        rows = [
            f"agent {agent}: {how}: {cell}"
            for agent, cells in self.table().items()
            for how, cell in cells.items()
        ]
        return "\n".join([*rows, *self.lines(), self.conclusion])

    def to_json(self) -> dict[str, Any]:
        """Return everything as plain data."""
        return {
            "run": self.run,
            "independent": self.is_independent,
            "comparisons": [vars(comparison) for comparison in self.comparisons],
            "shared": self.shared,
            "common": self.common,
            "notes": self.notes,
        }
