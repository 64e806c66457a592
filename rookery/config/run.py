"""What a user may choose about a run.

The groups below are the settings; `rookery.config.resolve` makes a `Config` of what a
user wrote. Every field has a description, which is its only text.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field

from rookery.config.agent import AgentSettings
from rookery.config.base import Settings
from rookery.config.messages import dotted, shown
from rookery.errors import ConfigError, nearest

LIMIT_PROBLEMS = 20

AnySettings = TypeVar("AnySettings", bound=Settings)


class EvaluateConfig(Settings):
    """How the agents are judged."""

    episodes: int = Field(
        default=100,
        ge=1,
        le=1_000_000,
        description="Episodes to play in an evaluation, all worlds together. More take "
        "longer and make the mean more certain.",
    )
    every_rounds: int = Field(
        default=0,
        ge=0,
        description="Rounds from one evaluation during training to the next; 0: none. Such "
        "an evaluation plays one episode per world.",
    )
    turns: int | None = Field(
        default=None,
        ge=1,
        description="The most turns an episode may last in an evaluation or a recording; "
        "a longer one is cut off, and counts with its return so far. By default "
        "100,000, or game.turns where that is more.",
    )


class RecordConfig(Settings):
    """What is kept for looking at."""

    every_rounds: int = Field(
        default=0,
        ge=0,
        description="Rounds from one recorded episode to the next; 0: none.",
    )


class ProbeConfig(Settings):
    """A function of one's own that is asked about the agents while they are trained."""

    code: str | None = Field(
        default=None,
        description="The function: ./file.py:name, called with (players, game).",
    )
    every_rounds: int = Field(
        default=10,
        ge=1,
        description="Rounds from one call to the next; the first is before round 1.",
    )


class CheckpointsConfig(Settings):
    """What is kept for going on, and for studying."""

    every_rounds: int = Field(
        default=0,
        ge=0,
        description="Rounds from one checkpoint to the next; 0: at the end.",
    )
    every_minutes: float = Field(
        default=10.0,
        ge=0.0,
        description="Minutes from one checkpoint to the next; 0: only by rounds.",
    )
    replay: bool = Field(
        default=True,
        description="Whether checkpoints hold the replays of off-policy learners. Without "
        "them a resumed run learns from what it plays then, and is marked as not exact. "
        "The few rounds of rows that all others need are always kept.",
    )
    keep: int = Field(default=2, ge=2, description="Checkpoints kept.")
    weights_every_rounds: int = Field(
        default=50,
        ge=0,
        description="Rounds from one copy of all weights to the next; 0: only the last.",
    )


class RestartsConfig(Settings):
    """What happens when a process dies."""

    limit: int = Field(
        default=5,
        ge=0,
        le=1_000_000,
        description="Deaths of a process in a row, without progress, that end the run.",
    )
    silence: float = Field(
        default=60.0,
        gt=0.0,
        description="Seconds without a sign of life after which a process is taken to "
        "hang and is replaced; at least ten times the longest silence so far.",
    )


class AgentConfig(AgentSettings):
    """What may differ from agent to agent."""

    player: str | None = Field(
        default=None,
        description="The scripted player that plays this agent: 'random', or one that "
        "the game offers.",
    )
    learning: bool = Field(
        default=True, description="Whether it learns; if not, its weights stay as they are."
    )
    start_from: str | None = Field(
        default=None,
        alias="from",
        description="A trained agent to start from: RUN:ID@ROUND, RUN:ID, RUN (the agent "
        "of the same id there), or a file that rookery export made.",
    )


class GameConfig(Settings):
    """Which game is played, and that game's own settings.

    A user writes both side by side: game.name, game.agents, game.acting.
    """

    name: str = Field(
        description="The game: a name from `rookery games`, or the path of one's own.",
    )
    settings: Settings = Field(
        default=Settings(), description="What the game itself declares."
    )


class Config(AgentSettings):
    """Everything a user chose for a run; an agent's settings here hold for all agents."""

    seed: int = Field(
        default=0,
        ge=0,
        lt=2**63,
        description="Where all random numbers come from. The same seed and settings "
        "give the same run.",
    )
    worlds: int = Field(
        default=16,
        ge=1,
        le=4096,
        description="Copies of the game played side by side. More give more steps per "
        "second and take more memory.",
    )
    schedule: Literal["pipelined", "sync", "async"] = Field(
        default="pipelined",
        description="Whether a round is learned while the next is played (pipelined), "
        "before it (sync), or whenever there is time (async: not reproducible).",
    )
    workers: Literal["auto"] | Annotated[int, Field(ge=0, le=4096)] = Field(
        default="auto",
        description="Processes that learn beside the one that plays; 0 does everything in "
        "one process. The result is the same; auto measures what is faster.",
    )
    max_lag: int = Field(
        default=2,
        ge=1,
        le=64,
        description="In async: the most rounds that playing may be ahead of learning.",
    )
    storage: Literal["memory", "disk"] = Field(
        default="memory",
        description="Where replays and states lie: in memory, or in files of the run's "
        "folder, which outlive every process.",
    )
    rounds: int = Field(default=300, ge=1, le=10_000_000, description="Rounds to train.")
    turns_per_round: int = Field(
        default=50, ge=1, le=100_000, description="Turns of each world in a round."
    )
    game: GameConfig = Field(description="The game, and how it is set up.")
    evaluate: EvaluateConfig = Field(
        default=EvaluateConfig(), description="How the agents are judged."
    )
    record: RecordConfig = Field(
        default=RecordConfig(), description="What is kept for looking at."
    )
    probe: ProbeConfig = Field(
        default=ProbeConfig(), description="What else is asked about the agents."
    )
    checkpoints: CheckpointsConfig = Field(
        default=CheckpointsConfig(), description="What is kept for going on."
    )
    restarts: RestartsConfig = Field(
        default=RestartsConfig(), description="What happens when a process dies."
    )
    agents: dict[str, AgentConfig] = Field(
        default={},
        description="Settings of one agent by its id, or of several by a pattern such "
        "as 'hunter*'. Patterns apply in the order given, and an agent's own id last.",
    )

    def agent(self, agent_id: str | int) -> AgentConfig:
        """Return one agent's settings: all agents', then patterns, then its own id's."""
        name = str(agent_id)
        common = {key: getattr(self, key) for key in AgentSettings.model_fields}
        found = AgentConfig().model_copy(update=common)
        for pattern, settings in self.agents.items():
            if pattern != name and fnmatchcase(name, pattern):
                found = _overlaid(found, settings)
        return _overlaid(found, self.agents[name]) if name in self.agents else found

    def check_agents(self, agent_ids: Sequence[str]) -> None:
        """Raise ConfigError if `agents` has an id or a pattern that fits no agent."""
        problems = [
            f"'{dotted(('agents', key))}' fits no agent of {shown(self.game.name)}: "
            f"{nearest(key, agent_ids)}"
            for key in self.agents
            if key not in agent_ids
            and not any(fnmatchcase(agent_id, key) for agent_id in agent_ids)
        ]
        if problems:
            raise all_in_one(problems)


def all_in_one(problems: Sequence[str]) -> ConfigError:
    """Return one error for many problems; only the first are told."""
    more = len(problems) - LIMIT_PROBLEMS
    if more <= 0:
        return ConfigError(*problems)
    return ConfigError(*problems[:LIMIT_PROBLEMS], f"and {more} more")


def _overlaid(base: AnySettings, over: AnySettings) -> AnySettings:
    update: dict[str, Any] = {}
    for name in over.model_fields_set:
        old, new = getattr(base, name), getattr(over, name)
        groups = isinstance(old, Settings) and isinstance(new, Settings)
        update[name] = _overlaid(old, new) if groups else new
    return base.model_copy(update=update)
