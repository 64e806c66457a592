"""Small PettingZoo games for the tests: one mortal, one turn-based, one that is wrong."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

LENGTH = 12


class Mortal(ParallelEnv):
    """Agents die one by one, one joins late, one never comes; what they see is a Dict.

    Actions count from 2; each agent sees its last action and the number of the turn.
    """

    metadata = {"name": "mortal", "action_names": ["rest", "dig", "run"]}

    def __init__(self, length: int = LENGTH, gift=1, size=(3,)):
        self.length, self.gift, self.size = length, gift, tuple(size)
        self.possible_agents = ["ant_0", "ant_1", "bee_0", "cow"]

    def observation_space(self, agent):
        places = spaces.Box(0, 100, self.size, np.float64)
        return spaces.Dict(place=places, clock=spaces.Box(0, 255, (1,), np.uint8))

    def action_space(self, agent):
        return spaces.Discrete(3, start=2)

    def reset(self, seed=None, options=None):
        self.random = np.random.default_rng(seed)
        self.turn = 0
        self.agents = ["ant_0", "ant_1"]
        self.last = dict.fromkeys(self.possible_agents, 0)
        return self._seen(self.agents), {agent: {} for agent in self.agents}

    def _seen(self, agents):
        return {
            agent: {
                "place": self.random.random(self.size) + self.last[agent],
                "clock": np.array([self.turn], np.uint8),
            }
            for agent in agents
        }

    def step(self, actions):
        assert set(actions) == set(self.agents)
        assert all(2 <= action < 5 for action in actions.values())
        self.turn += 1
        self.last.update(actions)
        agents = list(self.agents)
        if self.turn == 3:
            agents.append("bee_0")
        dies = {agent: self.turn == 5 and agent == "ant_0" for agent in agents}
        ends = {agent: self.turn == self.length for agent in agents}
        self.agents = [agent for agent in agents if not (dies[agent] or ends[agent])]
        rewards = {agent: self.gift * self.last[agent] for agent in agents}
        return self._seen(agents), rewards, dies, ends, {agent: {} for agent in agents}


class Elimination(AECEnv):
    """Three players in turn; who takes a number that was taken is out."""

    metadata = {"name": "elimination", "is_parallelizable": False}

    def __init__(self):
        self.possible_agents = ["player_0", "player_1", "player_2"]

    def observation_space(self, agent):
        flags = spaces.Box(0, 1, (6,), np.int8)
        return spaces.Dict(observation=flags, action_mask=flags)

    def action_space(self, agent):
        return spaces.Discrete(6)

    def observe(self, agent):
        mask = np.full(6, agent == self.agent_selection, np.int8)
        return {"observation": self.taken.copy(), "action_mask": mask}

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        self.taken = np.zeros(6, np.int8)
        self.taken[seed % 6] = 1
        self.rewards = dict.fromkeys(self.agents, 0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = self.agents[0]

    def step(self, action):
        mover = self.agent_selection
        if self.terminations[mover]:
            self._was_dead_step(action)
            return
        self._clear_rewards()
        following = self.agents[(self.agents.index(mover) + 1) % len(self.agents)]
        if self.taken[action]:
            self.terminations[mover] = True
            self.rewards[mover] = -1
        self.taken[action] = 1
        left = [agent for agent in self.agents if not self.terminations[agent]]
        if len(left) == 1:
            self.terminations[left[0]] = True
            self.rewards[left[0]] = 1
        self.agent_selection = following
        if any(self.terminations.values()):
            self._deads_step_first()


class Duel(AECEnv):
    """Three players; a move says who moves next, and one's own move may come twice.

    Nobody may call the one who is marked. Who is called pays, also while waiting. Every
    fifth move the mover leaves; the last two end together, by time.
    """

    metadata = {"name": "duel"}

    def __init__(self, fault: str = ""):
        self.fault = fault
        self.possible_agents = ["red", "green", "blue"]

    def observation_space(self, agent):
        board = spaces.Box(0, 9, (4,), np.float32)
        return spaces.Dict(observation=board, action_mask=spaces.Box(0, 1, (3,), np.int8))

    def action_space(self, agent):
        return spaces.Discrete(3)

    def observe(self, agent):
        board = np.array([self.moves, *self.called.values()], np.float32)
        mask = np.array([name in self.agents for name in self.possible_agents], np.int8)
        if len(self.agents) > 1:
            others = [name for name in self.agents if name != self.agent_selection]
            mask[self.possible_agents.index(others[self.moves % len(others)])] = 0
        return {"observation": board, "action_mask": mask}

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        self.moves, self.called = 0, dict.fromkeys(self.possible_agents, 0)
        self.rewards = dict.fromkeys(self.agents, 0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = self.agents[seed % 3]

    def step(self, action):
        mover = self.agent_selection
        if self.terminations[mover] or self.truncations[mover]:
            self._was_dead_step(action)
            return
        called = self.possible_agents[action]
        assert self.observe(mover)["action_mask"][action], "an illegal move"
        self._clear_rewards()
        self.moves += 1
        self.called[called] += 1
        self.rewards[called] = -1
        self.rewards[mover] += 0.5
        if self.moves == 5:
            self.terminations[mover] = True
        if self.moves == 9:
            self.truncations = dict.fromkeys(self.agents, True)
        if called == mover and self.terminations[mover]:
            called = next(name for name in self.agents if name != mover)
        self.agent_selection = called
        self._accumulate_rewards()
        if self.moves in (5, 9):
            self._deads_step_first()
        if self.moves == 3 and self.fault == "selection":
            self.agent_selection = "zoe"
        if self.moves == 3 and self.fault == "endless":
            self.rewards["red"] = float("nan")


class Faulty(ParallelEnv):
    """Two agents for four turns; breaks one of PettingZoo's rules in turn 2."""

    metadata = {"name": "faulty"}

    def __init__(self, fault: str = ""):
        self.fault, self.episodes = fault, 0
        self.possible_agents = ["a_0", "b_0"]
        if fault == "constructor":
            raise ValueError("two lines\nof text.")

    def observation_space(self, agent):
        box = spaces.Box(0, 1, (2,), np.float32)
        if self.fault.startswith("dict"):
            return spaces.Dict(near=box, far=box)
        if self.fault == "text space":
            return spaces.Text(5)
        if self.fault == "number":
            return spaces.Discrete(4)
        if self.fault == "mask space":
            mask = spaces.Box(0, 1, (2,), np.int8)
            return spaces.Dict(observation=box, action_mask=mask)
        return box

    def action_space(self, agent):
        if self.fault == "continuous":
            return spaces.Box(-1, 1, (2,), np.float32)
        shrunk = self.fault == "action space" and self.episodes == 2
        return spaces.Discrete(2 if shrunk else 3)

    def reset(self, seed=None, options=None):
        if self.fault == "reset":
            raise KeyError("seed")
        self.episodes += 1
        self.turn, self.agents = 0, list(self.possible_agents)
        if self.fault == "nobody":
            self.agents = []
        seen = {agent: self._see() for agent in self.possible_agents}
        if self.fault == "no observation at reset":
            del seen["b_0"]
        return seen if self.fault == "no infos" else (seen, {})

    def _see(self):
        box = np.zeros(2, np.float32)
        if self.fault == "number":
            return 7
        if self.fault == "dict":
            return {"near": box}
        if self.fault == "dict of list":
            return [box, box]
        return box

    def step(self, actions):
        self.turn += 1
        seen = {agent: self._see() for agent in self.agents}
        rewards = dict.fromkeys(self.agents, 1.0)
        ends = dict.fromkeys(self.agents, False)
        overs = dict.fromkeys(self.agents, self.turn == 4)
        result = (seen, rewards, ends, overs, {})
        if self.turn == 4:
            self.agents = []
        if self.turn < 2:
            return result
        return self._spoil(*result)

    def _spoil(self, seen, rewards, ends, overs, infos):
        if self.fault == "step":
            raise RuntimeError("oh")
        if self.fault == "four values":
            return seen, rewards, ends, infos
        if self.fault == "list of rewards":
            return seen, list(rewards), ends, overs, infos
        if self.fault == "stranger":
            self.agents = [*self.agents, "zoe"]
        if self.fault == "left":
            self.agents = ["a_0"]
        if self.fault == "back":
            ends["b_0"] = self.turn == 2
            self.agents = ["a_0"] if self.turn == 2 else ["a_0", "b_0"]
        values = {
            "observation": (seen, None),
            "reward": (rewards, None),
            "termination": (ends, None),
            "truncation": (overs, None),
            "reward of text": (rewards, ["lots"]),
            "shape": (seen, [np.zeros(3, np.float32)]),
            "broadcast": (seen, [np.float32(1)]),
            "dtype": (seen, [np.zeros(2, np.complex64)]),
        }
        if self.fault in values:
            place, replaced = values[self.fault]
            if replaced is None:
                del place["b_0"]
            else:
                place["b_0"] = replaced[0]
        return seen, rewards, ends, overs, infos


class Leaky(Mortal):
    """A reset that forgets to set the clock back."""

    def reset(self, seed=None, options=None):
        turn = getattr(self, "turn", 0)
        result = super().reset(seed)
        self.turn = turn % 2
        return result


def mortal(length: int = LENGTH, gift=1, size=(3,)):
    return Mortal(length, gift, size)


def leaky():
    return Leaky(length=7)


def elimination():
    return Elimination()


def duel(fault: str = ""):
    return Duel(fault)


def faulty(fault: str = ""):
    return Faulty(fault)


def no_game():
    return {"possible_agents": []}


constant = 3
