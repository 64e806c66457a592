"""Whether Stable-Baselines3 learns on one seat of a Rookery game, over three seeds.

    pip install stable-baselines3
    python experiments/sb3.py [--seeds 3] [--steps 100000] [--game treasurehunt]

Stable-Baselines3 is not a dependency of Rookery. Its PPO, with the settings it has by
default, plays seat 0 (`rookery.to_gymnasium`); the other seats act at random. A seed counts
if its mean return over 100 episodes, with actions drawn as in training, is above the 95 %
interval of the random player's mean in the same seat. Evaluations play all episodes at once
(`rookery.to_gymnasium_vector`).
"""

from __future__ import annotations

import argparse
import json
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

import rookery
from rookery.specs import Array

EPISODES = 100
EVALUATION_SEED = 1_000_003
TRAINING_ENVS = 4


def main() -> None:
    """Train every seed and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--game", default="treasurehunt")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if find_spec("stable_baselines3") is None:
        raise SystemExit("this experiment needs more: pip install stable-baselines3")
    returns = {"random": random_returns(arguments.game)}
    for seed in range(arguments.seeds):
        begin = time.monotonic()
        model = train(arguments.game, seed, arguments.steps)
        returns[f"PPO, seed {seed}"] = trained_returns(arguments.game, model)
        print(f"seed {seed}: {time.monotonic() - begin:.0f} s")
    rows = {label: summarise(values) for label, values in returns.items()}
    print_rows(arguments, rows)
    if arguments.out:
        arguments.out.write_text(json.dumps({**vars(arguments), "rows": rows}, default=str))
    limit = rows["random"]["interval"][1]
    if any(row["mean"] <= limit for label, row in rows.items() if label != "random"):
        raise SystemExit("a seed is not above the random player's interval")


def random_returns(game: str) -> Array:
    """Return what the random player gets in seat 0, one return per episode."""
    match = rookery.play(game, "random", episodes=EPISODES, seed=EVALUATION_SEED)
    return match.returns[:, 0]


def train(game: str, seed: int, steps: int) -> Any:
    """Return a model that was trained in seat 0."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env

    envs = make_vec_env(lambda: rookery.to_gymnasium(game, 0), TRAINING_ENVS, seed=seed)
    is_dict = hasattr(envs.observation_space, "spaces")
    policy = "MultiInputPolicy" if is_dict else "MlpPolicy"
    return PPO(policy, envs, seed=seed, device="cpu").learn(steps)


def trained_returns(game: str, model: Any) -> Array:
    """Return what a model gets in seat 0: the first episode of each of EPISODES worlds."""
    envs = rookery.to_gymnasium_vector(game, 0, num_envs=EPISODES, seed=EVALUATION_SEED + 1)
    observations, _ = envs.reset()
    returns, is_playing = np.zeros(EPISODES), np.ones(EPISODES, bool)
    while is_playing.any():
        actions, _ = model.predict(observations, deterministic=False)
        observations, rewards, terminated, truncated, _ = envs.step(actions)
        returns += rewards * is_playing
        is_playing &= ~(terminated | truncated)
    envs.close()
    return returns


def summarise(returns: Array) -> dict[str, Any]:
    """Return the mean and its 95 % interval."""
    mean = float(returns.mean())
    half = 1.96 * float(returns.std(ddof=1)) / len(returns) ** 0.5
    return {"mean": mean, "interval": [mean - half, mean + half]}


def print_rows(arguments: argparse.Namespace, rows: dict[str, Any]) -> None:
    """Print the results as a table."""
    table = Table("seat 0", "mean return", "95 % interval")
    for label, row in rows.items():
        low, high = row["interval"]
        table.add_row(label, f"{row['mean']:.1f}", f"{low:.1f} … {high:.1f}")
    console = Console()
    console.print(f"{arguments.game}, {arguments.steps:,} steps per seed")
    console.print(table)


if __name__ == "__main__":
    main()
