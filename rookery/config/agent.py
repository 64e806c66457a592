"""What may be chosen for each agent: how it sees, explores, remembers and learns."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rookery.config.base import Settings


class NetworkConfig(Settings):
    """An agent's network."""

    width: int = Field(128, ge=1, le=4096, description="Units of each hidden layer.")
    depth: int = Field(
        1, ge=1, le=8, description="Hidden layers that read the observation."
    )
    quantiles: int = Field(
        8, ge=1, le=256, description="Quantiles of the return that IQN looks at."
    )
    channels: int = Field(
        0,
        ge=0,
        le=256,
        multiple_of=16,
        description="Channels of a 3×3 convolution over grids; 0 reads them flat.",
    )


class EpsilonConfig(Settings):
    """How often an agent acts at random, instead of by its values."""

    start: float = Field(1.0, ge=0, le=1, description="Chance in the first step.")
    end: float = Field(0.02, ge=0, le=1, description="Chance after `steps` steps.")
    steps: int = Field(30_000, ge=1, description="Steps of its own until `end` is reached.")
    temperature: float = Field(
        0.0,
        ge=0,
        description="Above 0, actions whose values differ by less than about this are "
        "taken nearly alike (softmax), not the best; it falls as epsilon does.",
    )


class ReplayConfig(Settings):
    """What an agent remembers."""

    capacity: int = Field(
        100_000, ge=1, le=2**31, description="Rows kept; the oldest are overwritten first."
    )
    kind: Literal["uniform", "prioritised"] = Field(
        "uniform", description="Whether surprising steps are drawn more often."
    )
    warmup: int = Field(
        1_000, ge=1, description="Usable steps that must be there before learning starts."
    )
    exponent: float = Field(
        0.6, ge=0, le=1, description="Prioritised: 0 draws all alike, 1 in full proportion."
    )
    correction: float = Field(
        0.4,
        ge=0,
        le=1,
        description="Prioritised: how far importance weights undo the bias.",
    )


class RewardConfig(Settings):
    """What happens to rewards before they are learned from; reports are not touched."""

    scale: float = Field(1.0, gt=0, description="What each reward is multiplied by.")
    clip: float | None = Field(None, gt=0, description="Rewards are kept within ± this.")
    standardise: bool = Field(
        False, description="Divide by the spread of the rewards the agent has seen."
    )


class TargetConfig(Settings):
    """The slowly following copy of the network that targets are computed with."""

    every: int = Field(
        1, ge=1, description="Updates from one step of the target to the next."
    )
    rate: float = Field(0.01, gt=0, le=1, description="How far it goes then; 1 copies.")


class RateConfig(Settings):
    """How the learning rate changes."""

    schedule: Literal["constant", "linear", "cosine"] = Field(
        "constant", description="The way from `learning_rate` to its end."
    )
    end: float = Field(
        0.1, ge=0, le=1, description="The last rate, as a part of the first."
    )
    updates: int | None = Field(
        None,
        ge=1,
        description="Updates until the end is reached; by default all of a run's.",
    )
    warmup: int = Field(0, ge=0, description="Updates in which the rate rises from zero.")


class GradientConfig(Settings):
    """Gradients, before they are applied."""

    clip: float = Field(10.0, gt=0, description="Largest norm of an agent's gradient.")
    accumulate: int = Field(
        1, ge=1, le=1024, description="Batches that are averaged into one update."
    )


class ValueParts(Settings):
    """The parts of a learner of values, each of which can be switched off."""

    double: bool = Field(
        True, description="Choose with the network, value with the target."
    )
    dueling: bool = Field(True, description="Split values into a state's and an action's.")
    noisy: bool = Field(False, description="Explore by noise in the weights, not epsilon.")
    threshold: float = Field(1.0, gt=0, description="Where the Huber loss turns linear.")
    gap: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="How much of what an action is worth less than the best is taken off.",
    )
    retrace: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Retrace's lambda: n_step is cut where the best action was not taken.",
    )


class IqnConfig(ValueParts):
    """The parts of IQN."""

    acting_quantiles: int = Field(
        8, ge=1, le=256, description="Fixed quantiles whose mean is an action's value."
    )


class DqnConfig(ValueParts):
    """The parts of DQN."""


class ActorCriticParts(Settings):
    """How learners of a policy go over the steps of a round."""

    entropy: float = Field(0.01, ge=0, description="Weight of the entropy bonus.")
    value: float = Field(0.5, ge=0, description="Weight of the value loss.")
    passes: int = Field(4, ge=1, le=100, description="Times a round's steps are gone over.")
    minibatches: int = Field(4, ge=1, le=256, description="Updates per pass.")


class PpoConfig(ActorCriticParts):
    """The settings of PPO."""

    clip: float = Field(0.2, gt=0, lt=1, description="How far the ratio may move from 1.")
    gae: float = Field(0.95, ge=0, le=1, description="The lambda of advantage estimates.")


class VtraceConfig(ActorCriticParts):
    """The settings of V-trace."""

    rho_bar: float = Field(
        1.0, gt=0, description="The largest weight of a step, by how likely it is now."
    )
    c_bar: float = Field(
        1.0, ge=0, description="The largest part of what comes after that counts before."
    )


class TabularConfig(Settings):
    """The settings of tabular Q-learning."""

    rate: float = Field(
        0.1, gt=0, le=1, description="How far a value goes to what followed; 1 takes it."
    )
    entries: int = Field(
        10_000, ge=1, le=10_000_000, description="Different observations the table holds."
    )


class RecurrentConfig(Settings):
    """What agents with a memory of their own (`recurrent_…`) carry from turn to turn."""

    width: int = Field(
        64, ge=16, le=1024, multiple_of=16, description="Numbers it carries along."
    )
    sequence: int = Field(
        16, ge=2, le=512, description="Rows of a sequence that it learns from as one."
    )
    burn_in: int = Field(
        4,
        ge=0,
        le=256,
        description="First rows of a sequence that only refresh what is carried.",
    )


class AgentSettings(Settings):
    """Everything that may differ from agent to agent."""

    algorithm: str = Field(
        "iqn",
        description="How it learns: iqn, dqn, ppo, vtrace, recurrent_dqn, recurrent_ppo, "
        "tabular, or ./file.py:Class.",
    )
    frames: int = Field(5, ge=1, le=64, description="Rows of the past it sees at once.")
    n_step: int = Field(3, ge=1, le=64, description="Steps of reward before it bootstraps.")
    batch_size: int = Field(64, ge=1, le=65_536, description="Steps in a batch.")
    learning_rate: float = Field(5e-4, gt=0, le=1, description="Step size of Adam.")
    discount: float = Field(
        0.99, ge=0, le=1, description="What a reward one turn later counts."
    )
    discount_per: Literal["turn", "step"] = Field(
        "turn", description="Whether the discount counts turns, or the agent's own steps."
    )
    updates_per_round: int = Field(
        25, ge=0, le=1_000_000, description="Updates it makes in each round."
    )
    network: NetworkConfig = Field(NetworkConfig(), description="Its network.")
    epsilon: EpsilonConfig = Field(EpsilonConfig(), description="How it explores.")
    replay: ReplayConfig = Field(ReplayConfig(), description="What it remembers.")
    reward: RewardConfig = Field(RewardConfig(), description="What becomes of rewards.")
    target: TargetConfig = Field(TargetConfig(), description="Its target network.")
    rate: RateConfig = Field(RateConfig(), description="How its learning rate changes.")
    gradient: GradientConfig = Field(GradientConfig(), description="Its gradients.")
    iqn: IqnConfig = Field(IqnConfig(), description="If it learns by IQN.")
    dqn: DqnConfig = Field(DqnConfig(), description="If it learns by DQN.")
    ppo: PpoConfig = Field(PpoConfig(), description="If it learns by PPO.")
    vtrace: VtraceConfig = Field(VtraceConfig(), description="If it learns by V-trace.")
    tabular: TabularConfig = Field(
        TabularConfig(), description="If it learns by a table of values."
    )
    recurrent: RecurrentConfig = Field(
        RecurrentConfig(), description="If it learns by a recurrent network."
    )
