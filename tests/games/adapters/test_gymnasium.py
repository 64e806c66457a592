"""Gymnasium games behind the contract: one agent, copies, and tuple spaces."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from pydantic import ValidationError
from rich.console import Console

import rookery
from rookery.errors import ConfigError, GameError
from rookery.games.adapters.gymnasium import GymnasiumGame, open_game
from rookery.games.conformance import checks
from rookery.games.conformance.playback import Playback, PlayedTurn
from rookery.games.guard import GuardedGame
from rookery.games.registry import find
from rookery.specs import Array
from tests.paths import GAME_FILES as FILES
from tests.small import SMALL

GYM = f"{FILES / 'gym.py'}"
RELAY, LIGHTS, FAULTY = f"{GYM}:Relay", f"{GYM}:Lights", f"{GYM}:Faulty"
MAZE = f"{GYM}:Maze"
FORAGING = "lbforaging/Foraging-8x8-2p-2f-coop-v3"
SEED = 5


def make(path: str, worlds: int = 2, first_world: int = 0, **settings: Any) -> GuardedGame:
    kind = open_game(path)
    game = kind(kind.Settings(**settings), worlds, SEED, first_world)
    return GuardedGame(game, f"gymnasium:{path}")


def play(game: GuardedGame, actions: Any = None, turns: int = 30) -> list[PlayedTurn]:
    """Play turns; `actions` are one per agent, the same in every world and turn."""
    turns_played = []
    for turn in range(turns):
        played = PlayedTurn(turn)
        (phase,) = game.begin_turn()
        played.add_observations(game, phase, game.observe(phase))
        game.act(phase, np.tile(actions, (game.worlds, 1)))
        played.add_outcome(game.end_turn())
        turns_played.append(played)
    return turns_played


def play_faulty(fault: str) -> None:
    game = make(FAULTY, fault=fault, worlds=1, first_world=3)
    play(game, [0] * len(game.agents), turns=6)


CONFORMING = {
    "one": ("CartPole-v1", {}),
    "copies": ("CartPole-v1", {"copies": 3}),
    "foraging": (FORAGING, {}),
    "foraging for all": (FORAGING, {"reward": "sum"}),
    "tuples": (RELAY, {"length": 5}),
    "tuples that end one by one": (RELAY, {"ends": "each"}),
    "an image": (LIGHTS, {"copies": 2}),
    "a tuple of numbers": ("Blackjack-v1", {}),
}


@pytest.mark.shows("H3")
@pytest.mark.parametrize("case", CONFORMING)
def test_a_gymnasium_game_conforms(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, settings = CONFORMING[case]
    monkeypatch.setattr(checks, "TURNS", 40)
    monkeypatch.setattr(checks, "HISTORIES", 3)
    entry = find(f"gymnasium:{path}")

    findings = list(checks.check_game(entry, entry.settings(**settings)))

    assert [f"{f.sentence}: {f.detail}" for f in findings if f.result == "failed"] == []
    assert sum(finding.result == "passed" for finding in findings) >= 6


class TestTuples:
    def test_each_agent_has_its_own_number_spaces_and_role(self) -> None:
        game = make(RELAY)

        assert [spec.id for spec in game.agents] == ["0", "1", "2"]
        assert [spec.num_actions for spec in game.agents] == [2, 3, 4]
        assert {spec.role for spec in game.agents} == {"agent"}
        assert str(game.agents[0].parts["vector"]) == "(2,) float32"

    def test_each_agent_gets_its_own_observation_and_reward(self) -> None:
        played, after = play(make(RELAY), [1, 0, 3], turns=2)

        assert played.arrays["rewards"].tolist() == [[1, 0, 3]] * 2
        assert after.arrays["part 'vector' of agent '2'"][:, 0].tolist() == [3, 3]

    def test_a_single_flag_ends_the_episode_for_all_agents(self) -> None:
        turns_played = play(make(RELAY, length=4), [0, 0, 0], turns=6)

        ends = [played.arrays["terminated"].tolist() for played in turns_played]
        assert (
            ends == [[[False] * 3] * 2] * 3 + [[[True] * 3] * 2] + [[[False] * 3] * 2] * 2
        )

    def test_agents_can_end_one_by_one(self) -> None:
        turns_played = play(make(RELAY, ends="each"), [1, 1, 1], turns=10)

        ended = np.array([played.arrays["terminated"][0] for played in turns_played])
        rewards = np.array([played.arrays["rewards"][0] for played in turns_played])
        assert ended.argmax(axis=0).tolist() == [8, 6, 4]
        assert ended.sum(axis=0).tolist() == [1, 1, 1]
        assert rewards.sum(axis=0).tolist() == [9, 7, 5]

    def test_a_single_reward_goes_to_all_agents(self) -> None:
        (played,) = play(make(RELAY, team=True), [0, 0, 0], turns=1)

        assert (played.arrays["rewards"] == 1.5).all()

    def test_foraging_returns_what_the_bare_game_returns(self) -> None:
        turns_played = Playback(make(FORAGING, worlds=1), SEED).turns(0, 40)
        bare = gymnasium.make(FORAGING.partition("/")[2], disable_env_checker=True)
        game = make(FORAGING, worlds=1).game
        assert isinstance(game, GymnasiumGame)

        seen, _ = bare.reset(seed=game._reset_seed(0, 0))

        playback = Playback(make(FORAGING, worlds=1), SEED)
        for played in turns_played:
            for i in range(2):
                part = played.arrays[f"part 'vector' of agent '{i}'"][0]
                np.testing.assert_array_equal(part, seen[i])
            (phase,) = playback.game.begin_turn()
            observations = playback.game.observe(phase)
            actions = playback.actions(played.turn, phase, observations)
            playback.game.act(phase, actions)
            playback.game.end_turn()
            seen, rewards, over, _, _ = bare.step(actions[0].tolist())
            assert played.arrays["rewards"][0].tolist() == np.float32(rewards).tolist()
            assert played.arrays["terminated"][0].tolist() == [over] * 2


class TestRewards:
    def test_with_sum_agents_are_trained_on_all_rewards_and_scores_are_their_own(
        self,
    ) -> None:
        (played,) = play(make(RELAY, reward="sum"), [1, 2, 3], turns=1)

        assert played.arrays["rewards"].tolist() == [[6, 6, 6]] * 2
        assert played.arrays["scores"].tolist() == [[1, 2, 3]] * 2

    def test_an_agent_that_has_ended_gets_nothing_of_the_sum(self) -> None:
        turns_played = play(make(RELAY, reward="sum", ends="each"), [1, 1, 1], turns=9)

        rewards = np.array([played.arrays["rewards"][0] for played in turns_played])
        assert rewards[4].tolist() == [3, 3, 3]
        assert rewards[5].tolist() == [2, 2, 0]
        assert rewards[8].tolist() == [1, 0, 0]

    def test_with_own_there_are_no_scores(self) -> None:
        (played,) = play(make(RELAY), [1, 2, 3], turns=1)

        assert "scores" not in played.arrays

    def test_pettingzoo_games_can_sum_rewards_too(self) -> None:
        entry = find("pettingzoo:mpe2.simple_spread_v3")
        game = entry.build_guarded(entry.settings(reward="sum"), 2, SEED)

        (played,) = play(game, [0, 1, 2], turns=1)

        own = played.arrays["scores"]
        assert (played.arrays["rewards"] == own.sum(axis=1, keepdims=True)).all()


class TestCopies:
    def test_each_copy_has_an_agent_named_by_its_number(self) -> None:
        game = make("CartPole-v1", copies=4)

        assert [spec.id for spec in game.agents] == ["0", "1", "2", "3"]

    def test_copies_start_differently(self) -> None:
        (played,) = play(make("CartPole-v1", copies=3, worlds=1), [0, 0, 0], turns=1)

        starts = {
            part.tobytes() for name, part in played.arrays.items() if "vector" in name
        }
        assert len(starts) == 3

    @pytest.mark.shows("A2")
    def test_a_copy_does_not_depend_on_the_actions_in_other_copies(self) -> None:
        ways = [self.episodes(others) for others in (0, 1)]

        for left, right in zip(*ways, strict=True):
            np.testing.assert_array_equal(left, right)

    @staticmethod
    def episodes(others: int) -> list[Array]:
        """Return the observations of agent 1 by episode; the others repeat one action."""
        game = make("CartPole-v1", copies=3, worlds=1)
        episodes: list[list[Array]] = [[]]
        while len(episodes) < 5:
            (phase,) = game.begin_turn()
            seen = game.observe(phase)
            active = np.array(seen.active)[:, 0]
            if not active.any():
                episodes.append([])
            if active[1]:
                episodes[-1].append(seen.parts[1]["vector"][0].copy())
            own = len(episodes[-1]) % 3 > 0
            game.act(phase, np.array([[others, own, others]]))
            game.end_turn()
        return [np.array(episode) for episode in episodes[:4]]

    def test_an_agent_that_has_ended_waits_for_the_others(self) -> None:
        game = make("CartPole-v1", copies=2, worlds=1)

        turns_played = play(game, [0, 0], turns=40)

        ends = np.array([played.arrays["terminated"][0] for played in turns_played])
        active = np.array(
            [
                [played.arrays[f"active of agent '{i}'"][0] for i in (0, 1)]
                for played in turns_played
            ]
        )
        closing = np.flatnonzero(~active.any(axis=1))
        for first, last in zip([-1, *closing], closing, strict=False):
            episode = slice(first + 1, last)
            assert ends[episode].sum(axis=0).tolist() == [1, 1]
            assert (active[episode].sum(axis=0) == ends[episode].argmax(axis=0) + 1).all()

    def test_copies_of_a_game_with_several_agents_are_refused(self) -> None:
        with pytest.raises(GameError, match="has several agents: leave copies at 1"):
            make(RELAY, copies=2)


class TestSettings:
    def test_registered_arguments_are_the_defaults(self) -> None:
        fields = open_game(FORAGING).Settings.model_fields

        assert (fields["players"].default, fields["field_size"].default) == (2, (8, 8))
        assert not fields["players"].is_required()
        assert "render_mode" not in fields

    def test_settings_reach_the_game(self) -> None:
        assert len(make(FORAGING, players=4).agents) == 4

    def test_an_episode_can_be_limited(self) -> None:
        turns_played = play(make("CartPole-v1", max_episode_steps=5), [0], turns=5)

        assert turns_played[4].arrays["truncated"].all()
        assert not turns_played[4].arrays["terminated"].any()

    def test_the_games_own_limit_is_used_if_it_has_one(self) -> None:
        turns_played = play(make(FORAGING, max_episode_steps=3), [0, 0], turns=3)

        assert turns_played[2].arrays["terminated"].all()

    def test_a_wrong_key_is_refused(self) -> None:
        with pytest.raises(ValidationError):
            open_game("CartPole-v1").Settings(gravity=3)


class TestPaths:
    @pytest.mark.parametrize(
        "path",
        ["CartPole-v1", FORAGING, RELAY, f"{GYM}:Relay-v7", FORAGING.replace("/", ":")],
    )
    def test_a_game_is_found_by(self, path: str) -> None:
        assert make(path).agents

    @pytest.mark.parametrize(
        ("path", "message"),
        [
            (
                "CartPole-v7",
                "'CartPole-v7' is not a Gymnasium game: did you mean 'CartPole",
            ),
            ("CartPole", "did you mean 'CartPole-v1'?"),
            ("nowhere/Some-v0", "There is no module 'nowhere': check its name, or"),
            ("lbforaging/Foraging-8x8-v3", "did you mean 'Foraging-"),
            (f"{GYM}:Rely", "is not a Gymnasium game"),
            ("./nowhere.py:Some", "There is no file 'nowhere.py'"),
            ("./nowhere.py", "is not a Gymnasium game"),
            ("", "'' is not a Gymnasium game"),
            ("LunarLander-v3", "install the packages it needs."),
        ],
    )
    def test_a_path_that_is_not_a_game_is_refused(self, path: str, message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            open_game(path)

        assert message in str(caught.value)
        assert "\n" not in str(caught.value)


class TestFaults:
    @pytest.mark.shows("D10")
    def test_continuous_actions_are_refused_before_the_first_turn(self) -> None:
        with pytest.raises(GameError) as caught:
            make("Pendulum-v1")

        assert str(caught.value) == (
            "The action space Box(-2.0, 2.0, (1,), float32) of agent '0' of Pendulum-v1 is "
            "not Discrete(n) with n up to 32767: choose discrete actions in the game's "
            "settings if it has them, or wrap the game so that each action is one number."
        )

    @pytest.mark.parametrize(
        ("fault", "message"),
        [
            ("unequal", "has 2 action spaces and 3 observation spaces: give both one"),
            ("no info", "world 3: reset() returned no pair: return observation, info."),
            ("raises", "raised in step() in world 3: RuntimeError: oh (gym.py, line"),
            ("four values", "world 3: step() did not return five values: return obs"),
            ("shape", "in world 3 is (3,) float32, but its space says (2,) float32: make"),
            ("not a number", "gave agent '0' nan in part 'vector' of world 0: all numbers"),
            ("double not a number", "gave agent '0' nan in part 'vector' of world 0:"),
            ("double too large", "in world 3 holds -1e+300, which is infinite in float32:"),
            ("large reward", "gave agent '0' in world 0 a reward of 1e+39 in turn 1: all"),
            ("endless reward", "gave agent '0' in world 0 a reward of inf in turn 1: all"),
            ("text reward", "world 3: the reward of agent '0' is 'lots': return a number."),
            ("two rewards", "the game returned 2 rewards for 3 agents: return a list or"),
            ("no list", "the game returned observations as a int for 3 agents: return"),
        ],
    )
    def test_a_fault_is_one_line_with_fault_world_and_remedy(
        self, fault: str, message: str
    ) -> None:
        with pytest.raises(GameError) as caught:
            play_faulty(fault)

        assert message in str(caught.value)
        assert FAULTY in str(caught.value)
        assert "\n" not in str(caught.value)

    def test_a_game_without_a_fault_plays(self) -> None:
        play(make(FAULTY), [0], turns=12)


class TestPartsLeftOut:
    def test_the_error_for_a_part_that_cannot_be_stored_says_how_to_leave_it_out(
        self,
    ) -> None:
        with pytest.raises(GameError) as caught:
            make(MAZE)

        assert str(caught.value).endswith(
            f"of 'mission' of agent '0' of {MAZE} cannot be stored: make it a Box, a "
            "Discrete of at most 1024, or a Dict or Tuple of these, or leave it out with "
            "game.without=mission."
        )

    @pytest.mark.parametrize(
        "names",
        ["mission,direction", ["mission", "direction"], ("direction", "mission")],
    )
    def test_the_other_parts_are_as_before(self, names: Any) -> None:
        game = make(MAZE, without=names)

        assert list(game.agents[0].parts) == ["image"]
        play(game, [1], turns=12)

    def test_a_part_of_a_tuple_is_left_out_by_its_number(self) -> None:
        (spec,) = make("Blackjack-v1", without=1).agents

        assert list(spec.parts) == ["0", "2"]

    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            (
                {"without": "mission,direktion"},
                f"game.without names 'direktion', which {MAZE} cannot leave out: did you "
                "mean 'direction'?",
            ),
            (
                {"without": "mission,direction,image"},
                f"The observation of agent '0' of {MAZE} has no parts: leave out fewer "
                "parts.",
            ),
            (
                {"without": "mission", "codes": "direction"},
                f"game.codes names 'direction', which is not a part of {MAZE} that looks "
                "like a picture: known are image.",
            ),
            (
                {"without": "mission", "codes": "image", "shrink": 2},
                "game.shrink=2 would average the codes in 'image': leave game.shrink at 1.",
            ),
        ],
    )
    def test_names_that_do_not_fit_are_one_line(
        self, settings: dict[str, Any], message: str
    ) -> None:
        with pytest.raises((ConfigError, GameError)) as caught:
            make(MAZE, **settings)

        assert str(caught.value) == message

    def test_the_only_part_cannot_be_left_out(self) -> None:
        with pytest.raises(ConfigError, match="cannot leave out: it has only one part"):
            make("CartPole-v1", without="vector")

    def test_a_run_without_a_part_can_be_opened_again(self, tmp_path: Path) -> None:
        settings = {**SMALL, "game.without": "mission", "game.codes": "image"}
        run = rookery.train(
            f"gymnasium:{MAZE}", run=tmp_path / "run", workers=0, **settings
        )
        again = rookery.Run(run.path, f"gymnasium:{MAZE}")

        assert list(again.players()["0"].spec.parts) == ["image", "direction"]
        assert again.config.game.settings.codes == ("image",)


def test_a_function_that_cannot_be_drawn_is_told_what_to_pass_on() -> None:
    with pytest.raises(GameError) as caught:
        make(f"{GYM}:plain_maze", without="mission").render(0)

    assert str(caught.value) == (
        f"{GYM}:plain_maze has no picture to show: let plain_maze take render_mode and "
        "pass it on."
    )


class TestImages:
    def test_an_image_is_a_part_with_colours_first_that_networks_scale(self) -> None:
        (spec,) = make(LIGHTS).agents

        assert str(spec.parts["view"]) == "(3, 8, 8) uint8"
        assert spec.parts["view"].scale == 1 / 255

    def test_an_image_is_stored_unchanged(self) -> None:
        game = make(LIGHTS, worlds=1)
        play(game, [0], turns=1)
        game.begin_turn()

        stored = game.observe((0,)).parts[0]["view"][0]

        np.testing.assert_array_equal(stored.transpose(1, 2, 0), game.render(0))

    @pytest.mark.parametrize(("shrink", "left"), [(2, 5), (4, 2), (99, 1)])
    def test_an_image_can_be_downscaled(self, shrink: int, left: int) -> None:
        game = make(LIGHTS, worlds=1, size=11, shrink=min(shrink, 64))
        game.begin_turn()

        stored = game.observe((0,)).parts[0]["view"][0]

        side, whole = min(shrink, 11), game.render(0).astype(int)
        assert stored.shape == (3, left, left)
        for row, column in np.ndindex(left, left):
            square = whole[row * side :, column * side :][:side, :side]
            mean = square.sum(axis=(0, 1)) // side**2
            np.testing.assert_array_equal(stored[:, row, column], mean)

    def test_codes_are_stored_like_an_image_but_not_scaled(self) -> None:
        picture = make(MAZE, without="mission", worlds=1)
        codes = make(MAZE, without="mission", codes="image", worlds=1)
        for game in (picture, codes):
            game.begin_turn()
        stored = [game.observe((0,)).parts[0]["image"] for game in (picture, codes)]

        assert picture.agents[0].parts["image"].scale == 1 / 255
        assert codes.agents[0].parts["image"].scale == 1.0
        np.testing.assert_array_equal(*stored)

    @pytest.mark.shows("D10")
    def test_describe_says_how_a_part_is_scaled(self) -> None:
        def described(*settings: str) -> str:
            overrides = ["game.without=mission", *settings]
            description = rookery.describe(f"gymnasium:{MAZE}", overrides=overrides)
            console = Console(width=200, file=io.StringIO())
            console.print(description)
            return str(console.file.getvalue())

        assert "(3, 7, 7) uint8, divided by 255, as a picture" in described()
        assert "as a picture" not in described("game.codes=image")

    def test_copies_are_drawn_side_by_side(self) -> None:
        game = make(LIGHTS, copies=3)
        play(game, [0, 1, 2], turns=2)

        assert game.render(1).shape == (8, 24, 3)

    @pytest.mark.parametrize("maker", ["lights", "AnyLights"])
    def test_a_game_can_be_drawn_however_it_takes_its_render_mode(self, maker: str) -> None:
        game = make(f"{GYM}:{maker}", worlds=1)

        assert game.render(0).shape == (8, 8, 3)

    def test_an_image_game_trains(self, tmp_path: Path) -> None:
        run = rookery.train(
            f"gymnasium:{LIGHTS}",
            run=tmp_path / "run",
            **{"rounds": 3, "turns_per_round": 20, "worlds": 2, "replay.warmup": 16},
            **{"batch_size": 8, "updates_per_round": 2, "network.width": 16, "workers": 0},
            **{"network.channels": 16},
        )

        assert run.metrics()["loss"].notna().any()
