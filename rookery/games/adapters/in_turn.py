"""PettingZoo games in which one agent moves at a time (`AECEnv`), one move per turn.

Who moves next is the game's own affair, and may be anybody: `acting` is asked after every
move. Everybody is shown what they would see, also those who wait.
"""

from __future__ import annotations

from typing import Any

from rookery.specs import Array


class InTurn:
    """A game for one mover at a time, in the form in which all agents speak at once."""

    def __init__(self, copy: Any) -> None:
        self._copy = copy
        self.possible_agents: list[Any] = list(copy.possible_agents)
        self.observation_space, self.action_space = (
            copy.observation_space,
            copy.action_space,
        )
        self.metadata = copy.metadata

    @property
    def agents(self) -> list[Any]:
        """Who is there."""
        return list(self._copy.agents)

    @property
    def acting(self) -> tuple[Any, ...]:
        """Who moves next."""
        return (self._copy.agent_selection,)

    def reset(self, seed: int) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Start an episode."""
        self._copy.reset(seed=seed)
        self._pass_over()
        return self._seen(self._copy.agents), {}

    def step(self, actions: dict[Any, Any]) -> tuple[dict[Any, Any], ...]:
        """Let the one whose turn it is move; `actions` has just one."""
        (action,) = actions.values()
        before = list(self._copy.agents)
        self._copy.step(action)
        rewards = dict(self._copy.rewards)
        ends = dict(self._copy.terminations), dict(self._copy.truncations)
        leaving = [agent for agent in before if any(flags.get(agent) for flags in ends)]
        last = self._seen(leaving)
        self._pass_over()
        # Masks are those of the next mover: seen only now that the dead are gone.
        return last | self._seen(self._copy.agents), rewards, *ends, {}

    def render(self) -> Array:
        """Draw."""
        return self._copy.render()

    def close(self) -> None:
        """Close the game."""
        self._copy.close()

    def _seen(self, agents: list[Any]) -> dict[Any, Any]:
        return {agent: self._copy.observe(agent) for agent in agents}

    def _pass_over(self) -> None:
        """Let those who have ended leave: PettingZoo gives them one empty move each."""
        copy = self._copy
        while copy.agents and (
            copy.terminations.get(copy.agent_selection)
            or copy.truncations.get(copy.agent_selection)
        ):
            copy.step(None)
