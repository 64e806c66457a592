"""Settings that can differ from agent to agent."""
# ruff: noqa: RUF001 (Greek letters are the names of these parameters in the literature)

from __future__ import annotations

from typing import Literal

from pydantic import Field

from rookery.config.base import Settings


class NetworkConfig(Settings):
    """An agent's network."""

    width: int = Field(128, ge=1, le=4096, description="Units of each hidden layer.")
    depth: int = Field(1, ge=1, le=8, description="Hidden layers of the encoder.")
    quantiles: int = Field(
        8, ge=1, le=256, description="IQN: quantiles sampled per update."
    )
    channels: int = Field(
        0,
        ge=0,
        le=256,
        multiple_of=16,
        description="Channels of a 3×3 convolution over grids; 0 flattens them instead.",
    )
    module: str | None = Field(
        None,
        description="Your own torch module (./file.py:Class), which turns an observation "
        "into `width` features; it replaces `depth` and `channels`.",
    )


class EpsilonConfig(Settings):
    """Epsilon-greedy exploration."""

    start: float = Field(1.0, ge=0, le=1, description="Initial value of ε.")
    end: float = Field(0.02, ge=0, le=1, description="Final value of ε.")
    steps: int = Field(
        30_000, ge=1, description="Steps of the agent over which ε decays linearly."
    )
    temperature: float = Field(
        0.0,
        ge=0,
        description="Above 0, greedy actions are sampled from a softmax of the values with "
        "this temperature, which decays like ε; 0 takes the best.",
    )


class ReplayConfig(Settings):
    """An agent's replay buffer."""

    capacity: int = Field(
        100_000,
        ge=1,
        le=2**31,
        description="Rows in the buffer; the oldest are overwritten first.",
    )
    kind: Literal["uniform", "prioritised"] = Field(
        "uniform",
        description="Sampling of transitions: uniform, or in proportion to their TD error.",
    )
    warmup: int = Field(
        1_000, ge=1, description="Transitions in the buffer before learning starts."
    )
    exponent: float = Field(
        0.6,
        ge=0,
        le=1,
        description="Prioritised: exponent α of the priorities; 0 samples uniformly.",
    )
    correction: float = Field(
        0.4,
        ge=0,
        le=1,
        description="Prioritised: exponent β of importance weights; 1 removes the bias.",
    )


class RewardConfig(Settings):
    """How rewards are transformed before learning; reported rewards are not changed."""

    scale: float = Field(1.0, gt=0, description="Factor applied to each reward.")
    clip: float | None = Field(None, gt=0, description="Clip rewards to ± this value.")
    standardise: bool = Field(
        False, description="Divide rewards by the agent's running standard deviation."
    )


class TargetConfig(Settings):
    """The target network."""

    every: int = Field(
        1, ge=1, description="Updates between two changes of the target network."
    )
    rate: float = Field(
        0.01, gt=0, le=1, description="Soft-update rate τ; 1 copies the network."
    )


class RateConfig(Settings):
    """Learning-rate schedule."""

    schedule: Literal["constant", "linear", "cosine"] = Field(
        "constant", description="How the learning rate decays."
    )
    end: float = Field(
        0.1, ge=0, le=1, description="Final learning rate, as a fraction of the first."
    )
    rounds: int | None = Field(
        None,
        ge=1,
        description="Rounds until the final rate; by default all rounds of the run.",
    )
    updates: int | None = Field(
        None,
        ge=1,
        description="Updates until the final rate; by default all updates of rate.rounds.",
    )
    warmup: int = Field(
        0, ge=0, description="Updates over which the rate rises linearly from 0."
    )


class GradientConfig(Settings):
    """Gradients, before they are applied."""

    clip: float = Field(10.0, gt=0, description="Maximum norm of an agent's gradient.")
    accumulate: int = Field(
        1, ge=1, le=1024, description="Batches averaged into one update."
    )


class ValueParts(Settings):
    """The parts of a value-based algorithm; each can be turned off."""

    double: bool = Field(
        True,
        description="Double Q-learning: the network selects the next action, the target "
        "network evaluates it.",
    )
    dueling: bool = Field(
        True, description="Dueling network: separate state value and advantages."
    )
    noisy: bool = Field(
        False, description="Explore by noise in the weights instead of ε-greedily."
    )
    threshold: float = Field(
        1.0, gt=0, description="Threshold κ at which the Huber loss becomes linear."
    )
    gap: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Advantage-learning coefficient α; 0 turns it off.",
    )
    retrace: float | None = Field(
        None,
        ge=0,
        le=1,
        description="Retrace λ: n-step returns are cut at the first action that was not "
        "greedy; unset does not cut them.",
    )


class IqnConfig(ValueParts):
    """Settings of IQN."""

    acting_quantiles: int = Field(
        8, ge=1, le=256, description="Fixed quantiles averaged into an action's value."
    )


class DqnConfig(ValueParts):
    """Settings of DQN."""

    hysteresis: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Hysteretic Q-learning: factor on the learning rate where a value was "
        "too high; 1 turns it off.",
    )


class ActorCriticParts(Settings):
    """Settings that all actor-critic algorithms share."""

    entropy: float = Field(0.01, ge=0, description="Coefficient of the entropy bonus.")
    value: float = Field(0.5, ge=0, description="Coefficient of the value loss.")
    passes: int = Field(4, ge=1, le=100, description="Passes over the data of a round.")
    minibatches: int = Field(4, ge=1, le=256, description="Minibatches per pass.")


class PpoConfig(ActorCriticParts):
    """Settings of PPO."""

    clip: float = Field(
        0.2, gt=0, lt=1, description="Clip range of the probability ratio around 1."
    )
    gae: float = Field(
        0.95, ge=0, le=1, description="λ of generalised advantage estimation."
    )


class VtraceConfig(ActorCriticParts):
    """Settings of V-trace."""

    rho_bar: float = Field(
        1.0, gt=0, description="V-trace ρ̄: upper bound on the importance weight."
    )
    c_bar: float = Field(
        1.0, ge=0, description="V-trace c̄: upper bound on the trace coefficient."
    )


class TabularConfig(Settings):
    """Settings of tabular Q-learning."""

    rate: float = Field(
        0.1,
        gt=0,
        le=1,
        description="Learning rate of the table; 1 overwrites the old value.",
    )
    entries: int = Field(
        10_000, ge=1, le=10_000_000, description="Distinct observations in the table."
    )
    hysteresis: float = Field(
        1.0,
        ge=0,
        le=1,
        description="Hysteretic Q-learning: factor on the rate where a value was too high; "
        "1 turns it off.",
    )
    leniency: float = Field(
        0.0,
        ge=0,
        le=1e6,
        description="Lenient learning: initial temperature T of every action; a value that "
        "was too high stays as it is with probability exp(−1/T). 0 turns it off.",
    )
    cooling: float = Field(
        0.995,
        gt=0,
        le=1,
        description="Lenient learning: factor on a temperature at each of its updates.",
    )
    diffusion: float = Field(
        0.1,
        ge=0,
        le=1,
        description="Lenient learning: how far a temperature moves towards the mean of the "
        "next observation.",
    )


class RecurrentConfig(Settings):
    """Settings of recurrent algorithms."""

    width: int = Field(
        64, ge=16, le=1024, multiple_of=16, description="Hidden units of the GRU."
    )
    sequence: int = Field(
        16, ge=2, le=512, description="Length of a training sequence in rows."
    )
    burn_in: int = Field(
        4,
        ge=0,
        le=256,
        description="Rows at the start of a sequence that only warm up the hidden state.",
    )


class AgentSettings(Settings):
    """All settings that can differ from agent to agent."""

    algorithm: str = Field(
        "iqn",
        description="Learning algorithm: iqn, dqn, ppo, vtrace, recurrent_dqn, "
        "recurrent_ppo, tabular, or ./file.py:Class.",
    )
    frames: int = Field(
        5, ge=1, le=64, description="Frame stacking: latest observations in the input."
    )
    n_step: int = Field(3, ge=1, le=64, description="Steps of an n-step return.")
    batch_size: int = Field(64, ge=1, le=65_536, description="Transitions in a batch.")
    learning_rate: float = Field(5e-4, gt=0, le=1, description="Learning rate of Adam.")
    discount: float = Field(0.99, ge=0, le=1, description="Discount factor γ per turn.")
    discount_per: Literal["turn", "step"] = Field(
        "turn",
        description="Whether γ applies per turn of the game, or per step of the agent.",
    )
    updates_per_round: int = Field(
        25, ge=0, le=1_000_000, description="Updates of an agent in each round."
    )
    network: NetworkConfig = Field(NetworkConfig(), description="Network.")
    epsilon: EpsilonConfig = Field(
        EpsilonConfig(), description="Epsilon-greedy exploration."
    )
    replay: ReplayConfig = Field(ReplayConfig(), description="Replay buffer.")
    reward: RewardConfig = Field(
        RewardConfig(), description="Transformation of rewards before learning."
    )
    target: TargetConfig = Field(TargetConfig(), description="Target network.")
    rate: RateConfig = Field(RateConfig(), description="Learning-rate schedule.")
    gradient: GradientConfig = Field(GradientConfig(), description="Gradients.")
    iqn: IqnConfig = Field(IqnConfig(), description="IQN.")
    dqn: DqnConfig = Field(DqnConfig(), description="DQN.")
    ppo: PpoConfig = Field(PpoConfig(), description="PPO.")
    vtrace: VtraceConfig = Field(VtraceConfig(), description="V-trace.")
    tabular: TabularConfig = Field(TabularConfig(), description="Tabular Q-learning.")
    recurrent: RecurrentConfig = Field(
        RecurrentConfig(), description="Recurrent algorithms."
    )
