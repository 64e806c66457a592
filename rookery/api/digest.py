"""`rookery.digest`: the SHA-256 of a run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rookery.errors import checked
from rookery.runs.run import Run


@dataclass(frozen=True, repr=False)
class Digest:
    """The SHA-256 of every agent's learner state and experience, and of the whole run."""

    agents: dict[str, str]
    run: str
    exact: bool
    """Whether it is, to the bit, the run that its settings and seed determine."""
    why: str = ""
    """Why it is not."""

    def __repr__(self) -> str:
        exact = "exact" if self.exact else f"not exact: {self.why}"
        return f"<Digest {self.run[:16]}… of {len(self.agents)} agents, {exact}>"

    def __str__(self) -> str:
        lines = [f"{value}  agent {agent}" for agent, value in self.agents.items()]
        lines.append(f"{self.run}  run")
        return "\n".join(lines if self.exact else [*lines, f"Not exact: {self.why}"])

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return asdict(self)


def digest(run: str | Path | Run, game: str | type | None = None) -> Digest:
    """Return the SHA-256 of every agent's learner state and experience.

    Two runs with the same digest have learned the same, to the bit.

    Args:
        run: the run or its folder.
        game: the game as in training, by name or as a class, if it is not built in.
    """
    opened = run if isinstance(run, Run) else Run(checked("run", run, str, Path), game)
    return Digest(**opened.digest())
