"""The settings of a run.

`rookery.config.resolve` makes a `Config` from what a user wrote. Every field is documented
by its description, which is shown in tables and written into config.toml.
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
MOST_ACTORS = 256

AnySettings = TypeVar("AnySettings", bound=Settings)


class EvaluateConfig(Settings):
    """How the agents are evaluated."""

    episodes: int = Field(
        default=100,
        ge=1,
        le=1_000_000,
        description="Episodes of an evaluation, over all worlds. More take longer and give "
        "a more precise mean.",
    )
    every_rounds: int = Field(
        default=0,
        ge=0,
        description="Rounds between evaluations during training, each of one episode per "
        "world; 0 turns them off.",
    )
    turns: int | None = Field(
        default=None,
        ge=1,
        description="Maximum length of an episode in an evaluation or a recording, in "
        "turns; a longer one is truncated, and its return so far counts. By default "
        "100,000, or game.turns if that is more.",
    )


class RecordConfig(Settings):
    """Recording of episodes."""

    every_rounds: int = Field(
        default=0,
        ge=0,
        description="Rounds between recorded episodes; 0 records none.",
    )


class ProbeConfig(Settings):
    """A user's function that is called during training to measure the agents."""

    code: str | None = Field(
        default=None,
        description="The function, as ./file.py:name; it is called with (players, game).",
    )
    every_rounds: int = Field(
        default=10,
        ge=1,
        description="Rounds between calls; the first call is before round 1.",
    )


class CheckpointsConfig(Settings):
    """Checkpoints to resume from, and weights to study."""

    every_rounds: int = Field(
        default=0,
        ge=0,
        description="Rounds between checkpoints; 0 saves one only at the end.",
    )
    every_minutes: float = Field(
        default=10.0,
        ge=0.0,
        description="Minutes between checkpoints; 0 counts rounds only.",
    )
    replay: bool = Field(
        default=True,
        description="Whether checkpoints contain the replay buffers of off-policy "
        "learners. Without them a resumed run starts with empty buffers and is marked as "
        "not exact. The few rounds of rows that on-policy learners need are always saved.",
    )
    keep: int = Field(default=2, ge=2, description="Checkpoints to keep.")
    weights_every_rounds: int = Field(
        default=50,
        ge=0,
        description="Rounds between copies of all weights; 0 keeps only the last.",
    )


class RestartsConfig(Settings):
    """Restarts of processes that crash or hang."""

    limit: int = Field(
        default=5,
        ge=0,
        le=1_000_000,
        description="Crashes of a process in a row, without progress, that end the run.",
    )
    silence: float = Field(
        default=60.0,
        gt=0.0,
        description="Seconds without a heartbeat after which a process counts as hung and "
        "is restarted; at least ten times the longest pause so far.",
    )


class AgentConfig(AgentSettings):
    """The settings of one agent, or of a pattern of agents."""

    player: str | None = Field(
        default=None,
        description="Scripted player that acts for this agent: 'random', or a player of "
        "the game.",
    )
    learning: bool = Field(
        default=True,
        description="Whether the agent learns; if not, its weights are frozen.",
    )
    start_from: str | None = Field(
        default=None,
        alias="from",
        description="Trained agent to start from: RUN:ID@ROUND, RUN:ID, RUN (the agent "
        "with the same id), or a file written by rookery export.",
    )


class GameConfig(Settings):
    """The game and its own settings.

    In files and overrides they are side by side: game.name, game.agents, game.acting.
    """

    name: str = Field(
        description="Name of a game that `rookery games` lists, or the path of your own.",
    )
    settings: Settings = Field(
        default=Settings(), description="Settings that the game declares."
    )


class Config(AgentSettings):
    """All settings of a run; the agent settings here apply to all agents."""

    seed: int = Field(
        default=0,
        ge=0,
        lt=2**63,
        description="Random seed. The same seed and settings give the same run.",
    )
    worlds: int = Field(
        default=16,
        ge=1,
        le=4096,
        description="Copies of the game that are played in parallel. More give more steps "
        "per second and take more memory.",
    )
    schedule: Literal["pipelined", "sync", "async"] = Field(
        default="pipelined",
        description="When agents learn from a round: while the next round is played "
        "(pipelined), before it (sync), or at any time (async: not reproducible).",
    )
    workers: Literal["auto"] | Annotated[int, Field(ge=0, le=4096)] = Field(
        default="auto",
        description="Learner processes; 0 acts and learns in one process. The result is "
        "the same; auto measures which is fastest.",
    )
    actors: Literal["auto"] | Annotated[int, Field(ge=1, le=MOST_ACTORS)] = Field(
        default="auto",
        description="Actor processes that share out the worlds, at least 4 worlds each; "
        "with workers=0, their shares are played in turn in one process. The result is the "
        "same; auto measures which is fastest.",
    )
    max_lag: int = Field(
        default=2,
        ge=1,
        le=64,
        description="async: maximum number of rounds that acting is ahead of learning.",
    )
    storage: Literal["memory", "disk"] = Field(
        default="memory",
        description="Where replay buffers and states are stored: in memory, or in files in "
        "the run's folder, which survive a crash of every process.",
    )
    rounds: int = Field(default=300, ge=1, le=10_000_000, description="Rounds of training.")
    turns_per_round: int = Field(
        default=50, ge=1, le=100_000, description="Turns of each world per round."
    )
    game: GameConfig = Field(description="The game and its settings.")
    evaluate: EvaluateConfig = Field(default=EvaluateConfig(), description="Evaluation.")
    record: RecordConfig = Field(
        default=RecordConfig(), description="Recording of episodes."
    )
    probe: ProbeConfig = Field(
        default=ProbeConfig(),
        description="Probe: your own function, called during training.",
    )
    checkpoints: CheckpointsConfig = Field(
        default=CheckpointsConfig(), description="Checkpoints and copies of weights."
    )
    restarts: RestartsConfig = Field(
        default=RestartsConfig(), description="Restarts of processes that crash or hang."
    )
    agents: dict[str, AgentConfig] = Field(
        default={},
        description="Settings of one agent by its id, or of several by a pattern such as "
        "'hunter*'. Patterns apply in order, and an agent's own id last.",
    )

    def __repr__(self) -> str:
        names = ("algorithm", "rounds", "seed", "workers")
        values = ", ".join(f"{name}={getattr(self, name)}" for name in names)
        return f"<Config {self.game.name}: {values}, …>"

    __str__ = __repr__

    def agent(self, agent_id: str | int) -> AgentConfig:
        """Return one agent's settings: those for all, then patterns, then its own id."""
        name = str(agent_id)
        common = {key: getattr(self, key) for key in AgentSettings.model_fields}
        result = AgentConfig().model_copy(update=common)
        for pattern, settings in self.agents.items():
            if pattern != name and fnmatchcase(name, pattern):
                result = _overlaid(result, settings)
        return _overlaid(result, self.agents[name]) if name in self.agents else result

    def check_agents(self, agent_ids: Sequence[str]) -> None:
        """Raise ConfigError if `agents` has an id or a pattern that matches no agent."""
        problems = [
            f"'{dotted(('agents', key))}' matches no agent of {shown(self.game.name)}: "
            f"{nearest(key, agent_ids)}"
            for key in self.agents
            if key not in agent_ids
            and not any(fnmatchcase(agent_id, key) for agent_id in agent_ids)
        ]
        if problems:
            raise all_in_one(problems)


def all_in_one(problems: Sequence[str]) -> ConfigError:
    """Return one error for many problems; only the first are listed."""
    hidden = len(problems) - LIMIT_PROBLEMS
    if hidden <= 0:
        return ConfigError(*problems)
    return ConfigError(*problems[:LIMIT_PROBLEMS], f"and {hidden} more")


def _overlaid(base: AnySettings, over: AnySettings) -> AnySettings:
    update: dict[str, Any] = {}
    for name in over.model_fields_set:
        old, new = getattr(base, name), getattr(over, name)
        groups = isinstance(old, Settings) and isinstance(new, Settings)
        update[name] = _overlaid(old, new) if groups else new
    return base.model_copy(update=update)
