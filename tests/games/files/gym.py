"""Small Gymnasium games for the tests: lists, images, and ones that are wrong."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces

LENGTH = 9


class Relay(gymnasium.Env):
    """Three agents speak lists; each sees its own last action and a number of chance.

    With `ends="each"` they end one by one, and flags are lists, too.
    """

    metadata = {"render_modes": []}

    def __init__(self, length: int = LENGTH, ends: str = "all", team: bool = False):
        self.length, self.ends, self.team = length, ends, team
        self.action_space = spaces.Tuple([spaces.Discrete(n) for n in (2, 3, 4)])
        self.observation_space = [spaces.Box(0, 9, (2,), np.float64)] * 3

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.turn, self.last = 0, [0, 0, 0]
        return self._seen(), {}

    def _seen(self):
        return [np.array([last, self.np_random.random()]) for last in self.last]

    def step(self, actions):
        self.turn, self.last = self.turn + 1, list(actions)
        rewards = 1.5 if self.team else [float(action) for action in actions]
        over = self.turn == self.length
        if self.ends == "each":
            over = [self.turn >= self.length - 2 * i for i in range(3)]
        return tuple(self._seen()), rewards, over, False, {}


class Lights(gymnasium.Env):
    """An image of which one column is lit; stepping there pays."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 1}

    def __init__(self, size: int = 8, render_mode: str | None = None):
        self.size, self.render_mode = size, render_mode
        self.observation_space = spaces.Box(0, 255, (size, size, 3), np.uint8)
        self.action_space = spaces.Discrete(4, start=1)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.turn = 0
        return self._light(), {}

    def _light(self):
        self.lit = int(self.np_random.integers(4))
        self.picture = np.zeros((self.size, self.size, 3), np.uint8)
        wide = self.size // 4
        self.picture[:, self.lit * wide : (self.lit + 1) * wide, 1] = 255
        return self.picture

    def render(self):
        return self.picture

    def step(self, action):
        assert self.action_space.contains(action)
        reward = float(action - 1 == self.lit)
        self.turn += 1
        return self._light(), reward, False, self.turn == 10, {}


class Glare(Lights):
    """Shows something else while it is drawn, so that no episode can be repeated."""

    def _light(self):
        picture = super()._light()
        picture[..., 2] = 100 if self.render_mode else 0
        return picture


def lights(render_mode: str | None = None) -> Lights:
    """A function that makes the game."""
    return Lights(render_mode=render_mode)


class AnyLights(Lights):
    """Hands on whatever it is made with."""

    def __init__(self, **keywords):
        super().__init__(**keywords)


class Faulty(gymnasium.Env):
    """One agent for four turns; breaks one of Gymnasium's rules in turn 2."""

    def __init__(self, fault: str = ""):
        self.fault = fault
        self.observation_space = spaces.Box(0, 1, (2,), np.float32)
        self.action_space = spaces.Discrete(2)
        if fault.startswith("double"):
            self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        if fault == "continuous":
            self.action_space = spaces.Box(-1, 1, (1,), np.float32)
        if fault == "unequal":
            self.action_space = spaces.Tuple([spaces.Discrete(2)] * 2)
            self.observation_space = spaces.Tuple([self.observation_space] * 3)
        if fault in ("two rewards", "no list"):
            self.action_space = spaces.Tuple([spaces.Discrete(2)] * 3)
            self.observation_space = spaces.Tuple([self.observation_space] * 3)

    def reset(self, seed=None, options=None):
        self.turn = 0
        seen = self._seen()
        return seen if self.fault == "no info" else (seen, {})

    def _seen(self):
        seen = np.zeros(2, getattr(self.observation_space, "dtype", None) or np.float32)
        return [seen] * 3 if isinstance(self.action_space, spaces.Tuple) else seen

    def step(self, action):
        self.turn += 1
        result = [self._seen(), 0.0, self.turn == 4, False, {}]
        if self.turn == 2:
            self._spoil(result)
        return tuple(result)

    def _spoil(self, result):
        if self.fault == "raises":
            raise RuntimeError("oh")
        if self.fault == "four values":
            result.pop()
        values = {
            "shape": (0, np.zeros(3, np.float32)),
            "not a number": (0, np.full(2, np.nan, np.float32)),
            "double too large": (0, np.array([1.0, -1e300])),
            "double not a number": (0, np.array([1.0, np.nan])),
            "large reward": (1, 1e39),
            "endless reward": (1, float("inf")),
            "text reward": (1, "lots"),
            "two rewards": (1, [0.0, 1.0]),
            "no list": (0, 7),
        }
        if self.fault in values:
            place, value = values[self.fault]
            result[place] = value


gymnasium.register("Relay-v7", Relay)


class Maze(gymnasium.Env):
    """Observes like MiniGrid: codes that look like a picture, a direction, and a text."""

    metadata = {"render_modes": []}

    def __init__(self):
        self.observation_space = spaces.Dict(
            image=spaces.Box(0, 255, (7, 7, 3), np.uint8),
            direction=spaces.Discrete(4),
            mission=spaces.Text(20),
        )
        self.action_space = spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.turn = 0
        return self._seen(), {}

    def _seen(self):
        codes = self.np_random.integers(0, 11, (7, 7, 3)).astype(np.uint8)
        return {"image": codes, "direction": self.turn % 4, "mission": "get to the goal"}

    def step(self, action):
        self.turn += 1
        return self._seen(), float(action), self.turn == LENGTH, False, {}


def plain_maze():
    return Maze()
