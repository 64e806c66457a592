"""Pictures of recorded episodes: drawn again as they were, small, and safe to open."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import rookery
from rookery.config.resolve import resolve
from rookery.errors import ConfigError, GameError
from rookery.evaluation import pictures
from rookery.evaluation.pictures import FrameWriter
from rookery.evaluation.play import agents_of, assign_seats, play, play_match
from rookery.evaluation.recordings import Recording
from rookery.games.base import GameWrapper, Outcome
from rookery.games.registry import find
from tests.paths import GAME_FILES, RUN_FIXTURES

LIGHTS = f"gymnasium:{GAME_FILES / 'gym.py'}:Lights"
GRID_GAMES = {
    "cleanup": "cleaner",
    "gambling": "risky",
    "gathering": "random",
    "harvest": "random",
    "staghunt": "random",
    "tag": "random",
    "treasurehunt": "forager",
}


class Watched(GameWrapper):
    """Draws the first world after every turn, as a viewer would."""

    frames: list[np.ndarray] = []

    def end_turn(self) -> Outcome:
        is_closing = bool(self.game.world.closing[0])
        outcome = super().end_turn()
        if not is_closing:
            self.frames.append(self.game.render(0))
        return outcome


def filmed(name: str, player: str, turns: int = 25) -> tuple[Recording, list[np.ndarray]]:
    """Return a recording of an episode, and its pictures as they were drawn live."""
    entry = find(name)
    raw = {"worlds": 2, "seed": 5, "game": {"name": name, "turns": turns}}
    config = resolve(raw, entry.settings)
    seats = assign_seats(agents_of(entry, config), player)
    live: list[np.ndarray] = []

    def build(settings: Any, *arguments: int) -> Watched:
        watched = Watched(entry.build(settings, *arguments))
        watched.frames = live
        return watched

    match = play_match(
        replace(entry, build=build), config, seats, episodes=2, record=True, film=1
    )
    return match.recordings[0], live[:turns]


def recording() -> Recording:
    settings = {"turns": 4, "height": 5, "width": 6}
    return play("treasurehunt", record=True, game=settings).recordings[0]


def lights() -> Recording:
    return play(LIGHTS, film=1, seed=1).recordings[0]


# Grid games.


@pytest.mark.parametrize(("game", "player"), GRID_GAMES.items(), ids=GRID_GAMES)
def test_pictures_are_drawn_from_a_file_as_they_were_drawn_live(
    game: str, player: str, tmp_path: Path
) -> None:
    recorded, live = filmed(game, player)
    recorded.save(tmp_path / "episode.safetensors")

    loaded = Recording.load(tmp_path / "episode.safetensors")

    assert loaded.pictures is not None
    assert len(loaded.pictures) == len(live) == 25
    assert all(map(np.array_equal, loaded.pictures, live))
    assert len({frame.tobytes() for frame in live}) > 1


def test_a_recording_takes_a_hundredth_of_its_pictures(tmp_path: Path) -> None:
    recorded, live = filmed("harvest", "random", turns=100)

    recorded.save(tmp_path / "episode.safetensors")

    frames = sum(frame.nbytes for frame in live)
    assert (tmp_path / "episode.safetensors").stat().st_size < frames / 100


def test_a_grid_game_is_drawn_in_the_size_that_is_chosen() -> None:
    shown = recording()

    assert {frame.shape[1] for frame in shown.film()} == {6 * 32}
    assert {frame.shape[1] for frame in shown.film(size=100)} == {6 * 16}


@pytest.mark.parametrize("size", [31, 5000, 64.0, True, "640"])
def test_a_size_that_is_not_a_number_of_pixels_is_refused(size: Any) -> None:
    with pytest.raises(ConfigError, match=r"size is .*, expected the width in pixels: a"):
        recording().film(size=size)


def test_a_film_can_be_indexed_and_cut() -> None:
    film = recording().film()

    assert len(film) == 4
    assert np.array_equal(film[-1], film[3])
    assert [frame.tobytes() for frame in film[::2]] == [
        film[0].tobytes(),
        film[2].tobytes(),
    ]
    with pytest.raises(IndexError):
        film[4]


def test_a_game_that_draws_itself_is_stored_as_its_pictures() -> None:
    recorded = lights()

    assert isinstance(recorded.pictures, pictures.StoredFrames)


# Pictures of other games.


def test_stored_pictures_come_back_in_any_order(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    frames = [random.integers(256, size=(8, 6, 3), dtype=np.uint8) for _ in range(5)]
    writer = FrameWriter("noise")
    for frame in frames:
        writer.add(frame)

    stored = writer.pictures()

    assert all(map(np.array_equal, stored, frames))
    for turn in (4, 0, 3, 3, 1, 2):
        assert np.array_equal(stored[turn], frames[turn])


def test_a_picture_that_does_not_change_costs_a_few_bytes() -> None:
    random = np.random.default_rng(0)
    frame = random.integers(256, size=(80, 60, 3), dtype=np.uint8)
    writer = FrameWriter("still")
    for _ in range(5):
        writer.add(frame)

    stored = writer.pictures()

    assert all(np.array_equal(shown, frame) for shown in stored)
    ends = stored.stored()[0]["frames.ends"]
    assert (np.diff(ends) < 20).all()


def test_a_game_can_draw_into_the_same_array_every_turn() -> None:
    writer, canvas = FrameWriter("canvas"), np.zeros((2, 2, 3), np.uint8)
    for level in (10, 20, 30):
        canvas[...] = level
        writer.add(canvas)

    assert [int(frame[0, 0, 0]) for frame in writer.pictures()] == [10, 20, 30]


def test_pictures_of_another_game_are_loaded_as_they_were_drawn(tmp_path: Path) -> None:
    recorded = lights()
    recorded.save(tmp_path / "episode.safetensors")

    loaded = Recording.load(tmp_path / "episode.safetensors")

    assert recorded.pictures is not None
    assert loaded.pictures is not None
    assert all(map(np.array_equal, loaded.pictures, recorded.pictures))
    assert {int(frame[..., 1].max()) for frame in loaded.pictures} == {255}
    assert loaded.arrays.keys() == recorded.arrays.keys()


def test_other_games_are_resized() -> None:
    recorded = lights()

    assert {frame.shape[1] for frame in recorded.film()} == {8}
    assert {frame.shape[1] for frame in recorded.film(size=64)} == {64}


def test_pictures_beyond_the_limit_are_left_out_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pictures, "MOST_FRAME_BYTES", 50)

    with pytest.warns(UserWarning, match=r"the film ends after turn 4 of 10: more pictur"):
        recorded = rookery.replay(LIGHTS, seed=1)

    assert recorded.turns == 10
    assert len(recorded.film()) == 4


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        (np.zeros((4, 4), np.uint8), r"drew \(4, 4\) uint8 in render\(\), expected"),
        (np.zeros((4, 4, 4), np.uint8), r"drew \(4, 4, 4\) uint8 in render\(\), expected"),
        (np.zeros((4, 4, 3)), r"drew \(4, 4, 3\) float64 in render\(\), expected"),
        (None, r"drew a NoneType in render\(\), expected \(height, width, 3\) uint8"),
        (np.zeros((4, 5, 3), np.uint8), r"drew \(4, 5, 3\) uint8 in render\(\) after"),
    ],
)
def test_a_picture_of_the_wrong_form_is_refused(frame: Any, words: str) -> None:
    writer = FrameWriter("odd")
    writer.add(np.zeros((4, 4, 3), np.uint8))

    with pytest.raises(GameError, match=rf"game 'odd' {words}"):
        writer.add(frame)


def test_a_game_that_cannot_be_repeated_is_filmed_from_its_first_turn_on() -> None:
    recorded = rookery.replay(f"gymnasium:{GAME_FILES / 'gym.py'}:Glare", seed=1)

    assert len(recorded.film()) == 10
    assert {int(frame[0, 0, 2]) for frame in recorded.film()} == {100}


# Recordings of earlier versions.


def test_a_recording_with_raw_frames_still_opens_and_is_drawn() -> None:
    old = Recording.load(RUN_FIXTURES / "recording-with-frames.safetensors")

    assert old.arrays["frames"].shape == (10, 8, 8, 3)
    new = play(LIGHTS, film=1, record=True, seed=1).recordings[0]
    assert all(map(np.array_equal, old.film(), new.film()))
    assert len(old.film(size=64)) == 10


# Files from anyone.


def spoiled(path: Path, kind: str, change: Any) -> Path:
    """Write a recording to a file, changed by `change(arrays, metadata)`."""
    recorded = recording() if kind == "scenes" else lights()
    recorded.save(path)
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as content:
        metadata = json.loads(content.metadata()["rookery"])
    arrays = load_file(path)
    change(arrays, metadata)
    save_file(arrays, path, {"rookery": json.dumps(metadata)})
    return path


def set_item(target: int, *keys: Any, value: Any) -> Any:
    def change(*both: Any) -> None:
        place = both[target]
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value

    return change


FORGED: dict[str, tuple[str, Any]] = {
    "a kind that is not there": ("scenes", set_item(0, "scene.layers", ..., value=99)),
    "a place outside the map": ("scenes", set_item(0, "scene.agents", 0, 0, 0, value=5)),
    "a place before the map": ("scenes", set_item(0, "scene.agents", 0, 0, 1, value=-2)),
    "a direction that is none": ("scenes", set_item(0, "scene.agents", 0, 0, 2, value=4)),
    "scenes of another type": (
        "scenes",
        set_item(0, "scene.layers", value=np.zeros((4, 2, 5, 6), np.float32)),
    ),
    "scenes of another shape": (
        "scenes",
        set_item(0, "scene.layers", value=np.zeros((4, 2, 6, 6), np.uint8)),
    ),
    "scenes of fewer turns": (
        "scenes",
        lambda arrays, _: arrays.update(
            {name: arrays[name][:2] for name in ("scene.layers", "scene.agents")}
        ),
    ),
    "no scenes": ("scenes", lambda arrays, _: arrays.pop("scene.agents")),
    "a huge map": ("scenes", set_item(1, "stage", "height", value=2**62)),
    "no map": ("scenes", set_item(1, "stage", "height", value=0)),
    "a tile that is a number": ("scenes", set_item(1, "stage", "kinds", 0, 0, value=7)),
    "a colour that is none": (
        "scenes",
        set_item(1, "stage", "kinds", 0, 1, value=[1, 2, 300]),
    ),
    "a stage that is a list": ("scenes", set_item(1, "stage", value=[1, 2])),
    "huge pictures": ("frames", set_item(1, "frames", "width", value=2**30)),
    "pictures without a side": ("frames", set_item(1, "frames", "width", value=0)),
    "pieces that overlap": ("frames", set_item(0, "frames.ends", 3, value=1)),
    "pieces that end elsewhere": ("frames", set_item(0, "frames.ends", -1, value=9**9)),
    "rows below the picture": ("frames", set_item(0, "frames.rows", 3, 1, value=9)),
    "rows above the picture": ("frames", set_item(0, "frames.rows", 3, 0, value=-1)),
    "rows upside down": (
        "frames",
        set_item(0, "frames.rows", 3, value=np.array([8, 0])),
    ),
    "rows of other turns": (
        "frames",
        set_item(0, "frames.rows", value=np.zeros((3, 2), np.int64)),
    ),
    "more pictures than turns": (
        "frames",
        lambda arrays, _: arrays.update(
            {"frames.ends": np.full(50, len(arrays["frames.pieces"]))}
        ),
    ),
    "raw frames that are no pictures": (
        "scenes",
        lambda arrays, metadata: (
            metadata.pop("stage"),
            arrays.update(frames=np.zeros((4, 8, 8), np.uint8)),
        ),
    ),
    "players of other agents": ("scenes", set_item(1, "players", value=["random"])),
    "rewards of other agents": (
        "scenes",
        set_item(0, "rewards", value=np.zeros((4, 2), np.float32)),
    ),
    "no pieces": ("frames", lambda arrays, _: arrays.pop("frames.pieces")),
}


@pytest.mark.parametrize(("kind", "change"), FORGED.values(), ids=FORGED)
def test_pictures_that_cannot_be_are_refused_in_one_line(
    kind: str, change: Any, tmp_path: Path
) -> None:
    path = spoiled(tmp_path / "episode.safetensors", kind, change)

    with pytest.raises(ConfigError) as raised:
        Recording.load(path)

    assert str(raised.value).startswith(f"{path} is not a recording of an episode (")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("size", [0, 8 * 8 * 3 - 1, 8 * 8 * 3 + 1, 10**7])
def test_a_piece_of_another_size_is_not_unpacked(size: int, tmp_path: Path) -> None:
    def change(arrays: dict[str, np.ndarray], _: Any) -> None:
        piece = np.frombuffer(zlib.compress(bytes(size)), np.uint8)
        ends = arrays["frames.ends"]
        arrays["frames.pieces"] = np.concatenate([arrays["frames.pieces"], piece])
        ends[-1] = len(arrays["frames.pieces"])
        ends[-2] = len(arrays["frames.pieces"]) - len(piece)
        arrays["frames.rows"][-1] = (0, 8)

    loaded = Recording.load(spoiled(tmp_path / "e.safetensors", "frames", change))

    with pytest.raises(ConfigError, match="the picture after turn 10 of this recording is"):
        loaded.film()[9]


def test_a_picture_that_would_fill_the_memory_is_not_drawn() -> None:
    shown = recording()
    assert isinstance(shown.pictures, pictures.Scenes)
    stage = replace(shown.pictures.stage, height=10**4, width=10**4)
    shown.pictures = replace(shown.pictures, stage=stage)

    with pytest.raises(ConfigError, match="320,000 × 320,000 pixels is too large: choose"):
        shown.film()[0]


# In a line, and in a notebook.


def test_a_recording_is_one_line() -> None:
    assert repr(recording()) == (
        "<Recording of world 0, episode 0: 4 turns; 0: random, 1: random, 2: random>"
    )
    short = Recording(1, 2, ("a",), ("wise",), {"actions": np.zeros((3, 1), np.int32)})
    assert repr(short) == (
        "<Recording of world 1, episode 2: 3 turns, without pictures; a: wise>"
    )


def test_a_recording_shows_itself_in_a_notebook() -> None:
    html = recording()._repr_html_()

    assert html is not None
    assert html.startswith('<img src="data:image/gif;base64,R0lGODlh')
