"""Rookery's games as PettingZoo environments, by PettingZoo's own tests and ours."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from pettingzoo import ParallelEnv
from pettingzoo.test import parallel_api_test, parallel_seed_test

import rookery
from rookery.errors import ConfigError, GameError
from rookery.games.export.pettingzoo import GameParallelEnv
from rookery.games.registry import entries_by_name, find
from rookery.specs import Array
from tests.games.export.games import Masked, Mortal
from tests.paths import GAME_FILES

GAMES = list(entries_by_name())
SHORT: dict[str, Any] = {"game": {"turns": 12}}
HUNT = f"{GAME_FILES / 'staghunt.py'}:StagHunt"


def random_step(env: Any, rng: np.random.Generator) -> tuple[dict[str, Any], ...]:
    actions = {i: int(rng.integers(env.action_space(i).n)) for i in env.agents}
    return actions, *env.step(actions)


class TestEveryBuiltInGame:
    @pytest.mark.parametrize("game", GAMES)
    def test_passes_the_tests_of_pettingzoo(self, game: str) -> None:
        env = rookery.to_pettingzoo(game, **SHORT)

        parallel_api_test(env, num_cycles=30)
        parallel_seed_test(lambda: rookery.to_pettingzoo(game, **SHORT), num_cycles=30)

        assert isinstance(env, GameParallelEnv)
        assert isinstance(env, ParallelEnv)

    @pytest.mark.parametrize("game", GAMES)
    def test_every_observation_is_in_its_space(self, game: str) -> None:
        env = rookery.to_pettingzoo(game, **SHORT)
        observations, _ = env.reset(seed=3)
        rng = np.random.default_rng(0)
        while env.agents:
            for i, observation in observations.items():
                assert observation in env.observation_space(i)
            _, observations, *_ = random_step(env, rng)
        for i, observation in observations.items():
            assert observation in env.observation_space(i)


def test_names_files_and_classes_are_the_same_game() -> None:
    from rookery.games.builtin.treasurehunt import Treasurehunt

    envs = [rookery.to_pettingzoo(game) for game in ("treasurehunt", Treasurehunt)]
    first, second = (env.reset(seed=1)[0]["0"] for env in envs)

    assert (first == second).all()
    parallel_api_test(rookery.to_pettingzoo(HUNT), num_cycles=10)


def test_a_game_plays_as_world_0_of_rookery_over_several_episodes() -> None:
    """The same actions give the same observations, rewards and ends, bit for bit."""
    env = rookery.to_pettingzoo("gathering", seed=5, **SHORT)
    entry = find("gathering")
    game = entry.build_guarded(entry.settings(turns=12), 1, 5)
    rng = np.random.default_rng(2)
    for _ in range(3):
        observations, _ = env.reset()
        while env.agents:
            (phase,) = game.begin_turn()
            views = dict(zip(phase, game.observe(phase).parts, strict=True))
            for i, parts in views.items():
                for name, part in parts.items():
                    assert part[0].tobytes() == observations[str(i)][name].tobytes()
            actions, observations, rewards, terminated, truncated, _ = random_step(env, rng)
            game.act(phase, np.array([[actions[str(i)] for i in phase]]))
            outcome = game.end_turn()
            assert list(rewards.values()) == outcome.rewards[0].tolist()
            assert list(terminated.values()) == outcome.terminated[0].tolist()
            assert list(truncated.values()) == outcome.truncated[0].tolist()
        closing_turn(game)


def closing_turn(game: Any) -> None:
    for phase in game.begin_turn():
        game.observe(phase)
        game.act(phase, np.zeros((game.worlds, len(phase)), int))
    game.end_turn()


class TestAgents:
    def test_an_agent_that_dies_leaves_and_the_others_play_on(self) -> None:
        env = rookery.to_pettingzoo(Mortal)
        env.reset()
        present = []
        while env.agents:
            present.append(list(env.agents))
            _, rewards, terminated, truncated, _ = env.step(dict.fromkeys(env.agents, 1))
            assert list(rewards) == list(terminated) == list(truncated) == present[-1]

        assert present == [["0", "1", "2"]] * 3 + [["1", "2"]] * 3
        assert truncated == {"1": True, "2": True}
        assert terminated == {"1": False, "2": False}
        assert env.step({}) == ({}, {}, {}, {}, {})

    def test_an_agent_that_is_away_stays_and_its_action_is_ignored(self) -> None:
        env = rookery.to_pettingzoo(Mortal)
        env.reset()
        observations, _, _, _, infos = env.step({"0": 1, "1": 1, "2": 1})

        assert [infos[i]["active"] for i in "012"] == [True, False, True]
        assert not observations["1"].any()
        *_, infos = env.step({"0": 1, "2": 1})
        assert env.agents == ["0", "1", "2"]
        assert infos["1"]["active"]

    def test_counts_of_the_game_are_in_the_infos(self) -> None:
        env = rookery.to_pettingzoo(Mortal)
        env.reset()
        *_, infos = env.step({"0": 0, "1": 2, "2": 3})

        assert [infos[i]["counts"]["waits"] for i in "012"] == [1, 0, 0]

    def test_actions_have_their_names(self) -> None:
        env = rookery.to_pettingzoo("treasurehunt")

        assert env.metadata["action_names"]["0"] == ("up", "right", "down", "left")
        assert env.action_space("0") == spaces.Discrete(4)

    def test_a_mask_is_beside_the_observation_and_in_the_info(self) -> None:
        env = rookery.to_pettingzoo(Masked)
        parallel_api_test(env, num_cycles=10)
        observations, infos = env.reset()

        assert observations["0"] in env.observation_space("0")
        assert observations["0"]["action_mask"].tolist() == [0, 1, 0, 0]
        assert infos["0"]["action_mask"].tolist() == [0, 1, 0, 0]
        with pytest.raises(ConfigError) as raised:
            env.step({"0": 1, "1": 3})
        assert str(raised.value) == (
            "the action of agent '1' is 3: give an integer from 0 to 3, where the action "
            "mask is 1."
        )


class TestSeeds:
    def first_view(self, env: Any, seed: int | None = None) -> bytes:
        return env.reset(seed=seed)[0]["0"].tobytes()

    def test_the_first_reset_uses_the_seed_of_the_game(self) -> None:
        env = rookery.to_pettingzoo("treasurehunt", seed=4)
        other = rookery.to_pettingzoo("treasurehunt")

        assert self.first_view(env) == self.first_view(other, 4)

    def test_resets_without_a_seed_give_other_episodes_and_the_same_ones_again(
        self,
    ) -> None:
        env = rookery.to_pettingzoo("treasurehunt")
        views = [self.first_view(env, seed) for seed in (7, None, None, 7, None, None)]

        assert views[:3] == views[3:]
        assert len(set(views)) == 3


class TestPictures:
    def test_render_modes(self, capsys: pytest.CaptureFixture[str]) -> None:
        image = rookery.to_pettingzoo("treasurehunt", render_mode="rgb_array")
        text = rookery.to_pettingzoo("treasurehunt", render_mode="ansi")
        human = rookery.to_pettingzoo("treasurehunt", render_mode="human")
        for env in (image, text, human):
            env.reset(seed=0)

        picture = image.render()
        assert picture.dtype == np.uint8
        assert picture.ndim == 3
        assert human.render() is None
        assert capsys.readouterr().out == text.render() + "\n\n"
        assert image.metadata["render_modes"] == ["rgb_array", "ansi", "human"]

    def test_a_mode_that_a_game_does_not_have_is_refused(self) -> None:
        with pytest.raises(
            ConfigError,
            match=r"^'iterated_chicken' has no render_mode 'ansi': leave it out\.",
        ):
            rookery.to_pettingzoo("iterated_chicken", render_mode="ansi")
        env = rookery.to_pettingzoo("treasurehunt")
        env.reset()
        with pytest.raises(ConfigError) as raised:
            env.render()
        assert str(raised.value) == (
            "'treasurehunt' was made without a render mode: make it with "
            "render_mode='rgb_array' or render_mode='ansi' or render_mode='human'."
        )


def refused(call: Any, *arguments: Any, **settings: Any) -> str:
    with pytest.raises((ConfigError, GameError)) as raised:
        call(*arguments, **settings)
    return str(raised.value)


class TestMistakes:
    def test_agents_that_act_in_turn_cannot_be_asked_at_once(self) -> None:
        message = refused(rookery.to_pettingzoo, "treasurehunt", game={"acting": "in_turn"})

        assert message == (
            "in 'treasurehunt', agents act one after the other and observe what those "
            "before them did, but a ParallelEnv asks for all actions at once: set "
            "game.acting=simultaneous if the game has this setting, or play one seat with "
            "rookery.to_gymnasium."
        )

    @pytest.mark.parametrize(
        ("actions", "words"),
        [
            ({"0": 1, "1": 1}, "there is no action for agent '2': give one for each"),
            ({"0": 1, "1": 1, "2": 4}, "agent '2' is 4: give an integer from 0 to 3."),
            ({"0": 1, "1": 1, "2": 1.0}, "agent '2' is 1.0, () float64: give one integer"),
            ({"0": 1, "1": 1, "2": True}, "agent '2' is True, () bool: give one integer"),
            (
                {"0": 1, "1": 1, "2": 1, "3": 0},
                "an action for agent '3': known are 0, 1, 2",
            ),
            ({"0": 1, "1": 1, "2": [1]}, "agent '2' is [1], (1,) int64: give one integer"),
        ],
    )
    def test_wrong_actions_are_one_line(self, actions: dict[str, Any], words: str) -> None:
        env = rookery.to_pettingzoo("treasurehunt")
        env.reset()

        assert words in refused(env.step, actions)

    def test_actions_after_the_end_are_one_line(self) -> None:
        env = rookery.to_pettingzoo(Mortal)
        assert "the episode is over: call reset()" in refused(env.step, {"0": 1})
        env.reset()
        for _ in range(3):
            env.step({"0": 1, "1": 1, "2": 1})

        assert refused(env.step, {"0": 1, "1": 1, "2": 1}) == (
            "there is an action for agent '0': its episode has ended: give actions only "
            "for `agents`."
        )

    def test_wrong_seeds_settings_and_games_are_one_line(self) -> None:
        env = rookery.to_pettingzoo("treasurehunt")

        assert refused(env.reset, -1) == "seed is -1: give an integer from 0 to 2**63 - 1."
        assert (
            refused(env.reset, 1.5) == "seed is 1.5: give an integer from 0 to 2**63 - 1."
        )
        assert "seed must be" in refused(rookery.to_pettingzoo, "treasurehunt", seed=-1)
        assert refused(rookery.to_pettingzoo, "treasurehunt", turns=3) == (
            "'turns' is a setting of the game: write game={'turns': 3}"
        )
        assert "unknown setting 'game.turn': did you mean 'game.turns'?" in refused(
            rookery.to_pettingzoo, "treasurehunt", game={"turn": 3}
        )
        assert "did you mean 'treasurehunt'?" in refused(
            rookery.to_pettingzoo, "tresurehunt"
        )
        assert refused(rookery.to_pettingzoo, "treasurehunt", evaluate={"turns": 3}) == (
            "'evaluate' cannot be set here; settings of the game can: "
            "game={'evaluate': {'turns': 3}}"
        )
        assert refused(rookery.to_pettingzoo, dict) == (
            "game is \"<class 'dict'>\", expected the name of a game, or a subclass of "
            "GridGame or Game."
        )

    def test_a_missing_package_is_one_line(self) -> None:
        code = (
            "import sys; sys.modules['pettingzoo'] = None\n"
            "import rookery\n"
            "try: rookery.to_pettingzoo('treasurehunt')\n"
            "except rookery.ConfigError as error: print(error)\n"
        )
        ended = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
        )

        assert ended.stdout.count("\n") == 1, ended.stderr
        assert "pip install pettingzoo" in ended.stdout


def test_a_game_can_come_back_through_pettingzoo(tmp_path: Any) -> None:
    """Rookery plays its own export by file, with the same agents, parts and names."""
    file = tmp_path / "back.py"
    file.write_text(
        "import rookery\n\n\n"
        "def env():\n    return rookery.to_pettingzoo('treasurehunt', game={'turns': 9})\n"
    )
    match = rookery.play(f"pettingzoo:{file}:env", episodes=2)
    straight = find("treasurehunt").build(find("treasurehunt").settings(), 1, 0)

    assert len(match.episodes) == 2
    assert {episode.turns for episode in match.episodes} == {9}
    for spec, other in zip(match.agents, straight.agents, strict=True):
        assert spec.action_names == other.action_names
        assert spec.parts["view"].shape == other.parts["view"].shape
        assert spec.parts["view"].scale == 1.0


def test_observations_belong_to_the_caller() -> None:
    env = rookery.to_pettingzoo("treasurehunt")
    views: list[Array] = [env.reset()[0]["0"]]
    before = views[0].copy()
    rng = np.random.default_rng(0)
    for _ in range(5):
        views.append(random_step(env, rng)[1]["0"])

    assert (views[0] == before).all()
    assert not any(np.shares_memory(views[0], view) for view in views[1:])
