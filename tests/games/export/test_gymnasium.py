"""One seat of a game as a Gymnasium environment, alone and for many worlds at once."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode

import rookery
from rookery.errors import ConfigError, PlayerError
from rookery.evaluation.play import play_match
from rookery.games.builtin.matrix import Pavlov
from rookery.games.export.gymnasium import SeatEnv
from rookery.games.export.vector import SeatVectorEnv
from rookery.games.loop import GameLoop
from rookery.games.players import Observation, Player, RandomPlayer
from rookery.games.registry import entries_by_name, find
from rookery.rng import Purpose, Stream
from rookery.runs.configure import configure
from rookery.specs import Array
from tests.games.export.games import Masked, Mortal
from tests.small import HUNT

GAMES = list(entries_by_name())
SHORT: dict[str, Any] = {"game": {"turns": 12}}
EXPECTED = ("A Box observation space m..imum value is -?infinity",)
"""Parts of columns have no bounds, and Gymnasium points that out."""


@pytest.fixture
def registered() -> Iterator[Any]:
    """Register games with Gymnasium, so that its checker can make them again."""
    ids = []

    def register(game: Any, /, **settings: Any) -> gymnasium.Env[Any, Any]:
        def make(render_mode: str | None = None) -> gymnasium.Env[Any, Any]:
            return rookery.to_gymnasium(game, render_mode=render_mode, **settings)

        ids.append(f"exported/{len(ids)}-v0")
        gymnasium.register(ids[-1], make, disable_env_checker=True)
        return gymnasium.make(ids[-1]).unwrapped

    yield register
    for name in ids:
        del gymnasium.registry[name]


class TestEveryBuiltInGame:
    @pytest.mark.parametrize("game", GAMES)
    def test_passes_the_checks_of_gymnasium(self, game: str, registered: Any) -> None:
        """With its render modes, and with determinism, since it is registered."""
        env = registered(game, **SHORT)

        with warnings.catch_warnings():
            for text in EXPECTED:
                warnings.filterwarnings("ignore", f".*{text}")
            check_env(env)

        assert isinstance(env, SeatEnv)
        assert env.spec is not None

    @pytest.mark.parametrize("game", GAMES)
    @pytest.mark.parametrize("acting", ["simultaneous", "in_turn"])
    def test_a_world_of_the_vector_form_is_that_world_of_rookery(
        self, game: str, acting: str
    ) -> None:
        settings = {"turns": 7}
        if "acting" in find(game).settings.model_fields:
            settings["acting"] = acting
        elif acting == "in_turn":
            return
        compare_with_rookery(game, "random", settings)


def test_worlds_are_those_of_rookery_with_players_that_remember() -> None:
    compare_with_rookery("treasurehunt", "forager", {"turns": 9})
    compare_with_rookery("iterated_chicken", {1: "grim"}, {"turns": 9, "stop": 0.2})


def test_worlds_are_those_of_rookery_when_agents_die_and_are_away() -> None:
    compare_with_rookery(Mortal, "random", {})
    compare_with_rookery(Masked, "random", {})


class Spy(Player):
    """Plays at random, and keeps what it observed and chose."""

    log: list[tuple[Observation, Array]]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._random = RandomPlayer(*arguments)
        type(self).log = []

    def act(self, observation: Observation, turn: int) -> Array:
        actions = self._random.act(observation, turn)
        parts = {name: part.copy() for name, part in observation.parts.items()}
        seen = Observation(parts, observation.active.copy(), observation.legal)
        self.log.append((seen, actions))
        return actions


def compare_with_rookery(game: Any, others: Any, settings: dict[str, Any]) -> None:
    """Play 25 turns of five worlds in both forms; every bit must be the same."""
    worlds, turns, seed, seat = 5, 25, 11, 1 if isinstance(game, type) else 0
    entry = find(game)
    ours = entry.build_guarded(entry.settings(**settings), worlds, seed)
    names = [others] * len(ours.agents) if isinstance(others, str) else ["grim"] * 2
    names[seat] = Spy
    seated = entry.seat_players(ours, names, seed)
    played = list(islice(GameLoop(ours, list(seated.values())).turns(), turns))
    envs = rookery.to_gymnasium_vector(
        game, seat, others, num_envs=worlds, seed=seed, game=settings
    )
    observations, infos = envs.reset()
    for turn, (seen, actions) in zip(played, list(Spy.log), strict=True):
        for name, part in seen.parts.items():
            array = observations if len(seen.parts) == 1 else observations[name]
            assert array.dtype == part.dtype
            assert array.tobytes() == part.tobytes()
        assert (infos["active"] == seen.active).all()
        if seen.legal is not None:
            assert (infos["action_mask"].astype(bool) == seen.legal)[seen.active].all()
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        outcome = turn.outcome
        assert rewards.tobytes() == outcome.rewards[:, seat].tobytes()
        assert (terminated == outcome.terminated[:, seat]).all()
        assert (truncated == outcome.truncated[:, seat]).all()
        for name, count in outcome.counts.items():
            assert (infos["counts"][name] == count[:, seat]).all()
    assert any(turn.closing.any() for turn in played), "no episode ended"


def test_a_planted_difference_is_found() -> None:
    """The comparison fails if another seed is played."""
    original = rookery.to_gymnasium_vector

    def other(*arguments: Any, **settings: Any) -> Any:
        return original(*arguments, **{**settings, "seed": settings["seed"] + 1})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rookery, "to_gymnasium_vector", other, raising=False)
        with pytest.raises(AssertionError):
            compare_with_rookery("treasurehunt", "random", {"turns": 7})


class TestVectorForm:
    def test_states_how_worlds_restart(self) -> None:
        envs = rookery.to_gymnasium_vector("treasurehunt", num_envs=3, **SHORT)

        assert isinstance(envs, SeatVectorEnv)
        assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
        assert envs.observation_space.shape == (3, *envs.single_observation_space.shape)
        observations, _ = envs.reset(seed=1)
        assert observations in envs.observation_space
        for _ in range(12):
            _, _, _, truncated, infos = envs.step(envs.action_space.sample())
        assert truncated.all()
        assert not infos["active"].any()
        _, rewards, _, truncated, infos = envs.step(envs.action_space.sample())
        assert not rewards.any()
        assert not truncated.any()
        assert infos["active"].all()

    def test_resets_without_a_seed_give_other_episodes_and_the_same_ones_again(
        self,
    ) -> None:
        envs = rookery.to_gymnasium_vector("treasurehunt", num_envs=2)
        views = [
            envs.reset(seed=seed)[0].tobytes() for seed in (7, None, None, 7, None, None)
        ]

        assert views[:3] == views[3:]
        assert len(set(views)) == 3

    def test_draws_every_world(self) -> None:
        envs = rookery.to_gymnasium_vector("treasurehunt", num_envs=2, render_mode="ansi")
        envs.reset()

        first, second = envs.render()
        assert first != second

    @pytest.mark.parametrize(
        ("actions", "words"),
        [
            ([0, 1], "the actions of agent '0' are [0, 1], (2,) int64: give an array of 3"),
            ([0, 1, 4], "agent '0' in world 2 is 4: give an integer from 0 to 3."),
            ([0.0, 1, 1], "(3,) float64: give an array of 3 integers."),
        ],
    )
    def test_wrong_actions_are_one_line(self, actions: Any, words: str) -> None:
        envs = rookery.to_gymnasium_vector("treasurehunt", num_envs=3)
        envs.reset()

        assert words in refused(envs.step, actions)

    def test_what_it_cannot_do_is_one_line(self) -> None:
        envs = rookery.to_gymnasium_vector("treasurehunt", num_envs=3)

        assert "call reset() first" in refused(envs.step, [0, 0, 0])
        assert "seed is a list of 3: give one" in refused(envs.reset, seed=[1, 2, 3])
        assert "leave out reset_mask" in refused(
            envs.reset, options={"reset_mask": np.ones(3, bool)}
        )
        for number in (0, 2.0, True):
            assert refused(
                rookery.to_gymnasium_vector, "treasurehunt", num_envs=number
            ) == (f"num_envs is {number}: give an integer of at least 1.")
        assert "use 'ansi' or 'rgb_array'" in refused(
            rookery.to_gymnasium_vector, "treasurehunt", render_mode="human"
        )


def refused(call: Any, *arguments: Any, **settings: Any) -> str:
    with pytest.raises((ConfigError, PlayerError)) as raised:
        call(*arguments, **settings)
    return str(raised.value)


class TestOneSeat:
    def test_the_others_are_the_players_that_are_named(self) -> None:
        """Against a cooperator both rewards of chicken are known."""
        env = rookery.to_gymnasium("iterated_chicken", 1, "cooperator", **SHORT)
        env.reset(seed=0)

        assert [env.step(action)[1] for action in (0, 1)] == [3.0, 5.0]

    def test_classes_and_mappings_are_players_and_the_own_entry_is_not_used(self) -> None:
        def rewards(others: Any) -> list[float]:
            env = rookery.to_gymnasium("iterated_prisoners_dilemma", 0, others, **SHORT)
            env.reset(seed=0)
            return [env.step(action)[1] for action in (0, 1, 0, 1)]

        assert rewards(Pavlov) == rewards({1: "pavlov", 0: "defector"}) == rewards("pavlov")
        assert rewards("pavlov") != rewards("defector")

    def test_an_agent_that_dies_ends_the_episode_of_its_seat(self) -> None:
        env = rookery.to_gymnasium(Mortal, 0)
        env.reset(seed=0)
        ends = [env.step(1)[2:4] for _ in range(3)]

        assert ends == [(False, False), (False, False), (True, False)]
        assert refused(env.step, 1) == "there is no episode to step: call reset() first."
        env.reset()
        assert env.step(1)[2:4] == (False, False)

    def test_a_seat_acts_at_its_place_in_the_turn(self) -> None:
        """With a fixed order, agent 2 observes what agents 0 and 1 did in this turn."""
        env = rookery.to_gymnasium(
            "treasurehunt", 2, game={"acting": "in_turn", "order": "fixed", "turns": 5}
        )
        observation, _ = env.reset(seed=3)
        entry = find("treasurehunt")
        game = entry.build_guarded(
            entry.settings(acting="in_turn", order="fixed", turns=5), 1, 3
        )
        for i, phase in enumerate(game.begin_turn()):
            seen = game.observe(phase)
            if i == 2:
                break
            player = RandomPlayer(
                game.agents[i], game.settings, 1, Stream(3, Purpose.PLAYER, i)
            )
            (single,) = seen.parts
            actions = player.act(Observation(single, seen.active[0], None), 0)
            game.act(phase, actions[:, None])

        assert seen.parts[0]["view"][0].tobytes() == observation.tobytes()

    def test_legal_actions_are_offered_to_maskable_learners(self) -> None:
        env = rookery.to_gymnasium(Masked)
        _, info = env.reset()

        assert env.action_masks().tolist() == [False, True, False, False]
        assert info["action_mask"].tolist() == [0, 1, 0, 0]
        assert rookery.to_gymnasium("treasurehunt").action_masks().all()

    def test_wrong_seats_and_players_are_one_line(self) -> None:
        assert refused(rookery.to_gymnasium, "treasurehunt", 3) == (
            "'treasurehunt' has no agent '3': known are 0, 1, 2."
        )
        assert "unknown player 'forger' for 'treasurehunt': did you mean 'forager'?" in (
            refused(rookery.to_gymnasium, "treasurehunt", 0, "forger")
        )
        assert refused(rookery.to_gymnasium, "treasurehunt", 0, {1: 5}) == (
            "the player of agent '1' is 5: give the name of a player, a class of players "
            "or a trained agent."
        )
        assert "unknown agent '7'" in refused(
            rookery.to_gymnasium, "treasurehunt", 0, {7: "random"}
        )
        assert "got 2 players for the 3 agents" in refused(
            rookery.to_gymnasium, "treasurehunt", 0, ["random", "random"]
        )

    def test_floats_and_numpy_integers_as_actions(self) -> None:
        env = rookery.to_gymnasium("treasurehunt")
        env.reset(seed=np.int64(3))

        env.step(np.int64(2))
        env.step(np.array(1))
        assert "is 1.0, () float64: give one integer." in refused(env.step, 1.0)


def test_trained_agents_play_the_other_seats_as_in_a_match(tmp_path: Path) -> None:
    """A frozen group plays on, bit for bit as in `rookery.play`."""
    run = rookery.train("treasurehunt", run=tmp_path / "run", workers=0, **HUNT)
    trained = run.players()
    changed = {"seed": 9, "worlds": 2, "game.turns": 15}
    entry, config = configure("treasurehunt", settings=changed)
    match = play_match(entry, config, ["random", trained["1"], trained["2"]], episodes=2)
    envs = rookery.to_gymnasium_vector(
        "treasurehunt", 0, trained, num_envs=2, seed=9, game={"turns": 15}
    )
    envs.reset()
    stream = Stream(9, Purpose.PLAYER, 0)
    returns = np.zeros(2)
    for turn in range(15):
        draws = stream.uniform((np.arange(2), turn), 0, 1)[:, 0]
        returns += envs.step((draws * 4).astype(int))[1]

    assert returns.tolist() == match.returns[:, 0].tolist()
    frozen = rookery.to_gymnasium_vector(
        "treasurehunt", 0, run, num_envs=2, seed=9, game={"turns": 15}
    )
    assert frozen.reset()[0].tobytes() == envs.reset(seed=9)[0].tobytes()
    for actions in ([0, 1], [2, 3], [1, 1]):
        assert frozen.step(actions)[0].tobytes() == envs.step(actions)[0].tobytes()
    other = rookery.train("iterated_chicken", run=tmp_path / "two", workers=0, rounds=1)
    assert "cannot play agent '1'" in refused(
        rookery.to_gymnasium, "treasurehunt", 0, other.players()
    )
