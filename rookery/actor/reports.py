"""What actors report of a round: each of its share, and all of them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rookery.actor.metrics import Metrics, RoundSums
from rookery.games.episodes import Episode


@dataclass
class PlayedRound:
    """The report of one round, of all worlds."""

    episodes: list[Episode] = field(default_factory=list)
    """The episodes that ended in this round, by turn and world."""
    metrics: Metrics = field(default_factory=dict)
    """Agent id to metric name to value."""
    seconds: float = 0.0
    """How long all actors worked on it, added up."""
    interrupted: bool = False
    """Whether the game could not be restored and was started again."""

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "metrics": self.metrics,
            "seconds": self.seconds,
            "interrupted": self.interrupted,
            "episodes": [episode.to_json() for episode in self.episodes],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PlayedRound:
        """Return a report from what `to_json` returned."""
        episodes = [Episode.from_json(episode) for episode in data["episodes"]]
        return cls(episodes, data["metrics"], data["seconds"], data["interrupted"])


@dataclass
class PlayedShare:
    """An actor's report of its share of a round."""

    sums: RoundSums
    lags: list[float]
    """How many rounds each agent's weights were behind, on average."""
    episodes: list[tuple[int, Episode]]
    """The episodes that ended, each with the turn in which it did."""
    seconds: float
    interrupted: bool

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain data."""
        return {
            "sums": self.sums.to_json(),
            "lags": self.lags,
            "episodes": [[turn, episode.to_json()] for turn, episode in self.episodes],
            "seconds": self.seconds,
            "interrupted": self.interrupted,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> PlayedShare:
        """Return a report from what `to_json` returned."""
        return cls(
            RoundSums.from_json(data["sums"]),
            data["lags"],
            [(turn, Episode.from_json(episode)) for turn, episode in data["episodes"]],
            data["seconds"],
            data["interrupted"],
        )
