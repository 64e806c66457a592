"""Recordings of episodes: saved and loaded, other files refused, and shown as films."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from rookery.errors import ConfigError
from rookery.evaluation.recordings import Recording

METADATA = {"world": 3, "episode": 5, "agents": ["0", "1"], "players": ["random", "wise"]}


def arrays() -> dict[str, np.ndarray]:
    return {
        "actions": np.array([[0, 1], [2, 3], [1, 1]], np.int32),
        "active": np.array([[True, True], [True, False], [True, True]]),
        "rewards": np.array([[0.5, -1], [2, 0], [0, 0]], np.float32),
        "terminated": np.zeros((3, 2), bool),
        "truncated": np.array([[False] * 2, [False] * 2, [True] * 2]),
        "facts.position": np.arange(12, dtype=np.int16).reshape(3, 2, 2),
    }


def recording(**extra: np.ndarray) -> Recording:
    return Recording(3, 5, ("0", "1"), ("random", "wise"), {**arrays(), **extra})


def frames() -> np.ndarray:
    return np.random.default_rng(0).integers(255, size=(3, 64, 96, 3), dtype=np.uint8)


# Saved and loaded.


def test_loaded_recording_is_about_the_same_episode(tmp_path):
    recording().save(tmp_path / "episode.safetensors")

    loaded = Recording.load(tmp_path / "episode.safetensors")

    assert (loaded.world, loaded.episode) == (3, 5)
    assert loaded.agents == ("0", "1")
    assert loaded.players == ("random", "wise")
    assert loaded.turns == 3


@pytest.mark.parametrize("name", arrays())
def test_loaded_array_is_the_one_that_was_saved(tmp_path, name):
    saved = recording()
    saved.save(tmp_path / "episode.safetensors")

    loaded = Recording.load(tmp_path / "episode.safetensors").arrays

    assert list(loaded) == sorted(saved.arrays)
    assert loaded[name].dtype == saved.arrays[name].dtype
    assert np.array_equal(loaded[name], saved.arrays[name])


def test_array_that_is_not_contiguous_comes_back_as_it_was(tmp_path):
    turned = np.arange(6, dtype=np.int16).reshape(2, 3).T
    recording(turned=turned).save(tmp_path / "episode.safetensors")

    loaded = Recording.load(tmp_path / "episode.safetensors")

    assert np.array_equal(loaded.arrays["turned"], turned)


def test_frames_come_back(tmp_path):
    pictures = frames()
    recording(frames=pictures).save(tmp_path / "episode.safetensors")

    loaded = Recording.load(tmp_path / "episode.safetensors")

    assert np.array_equal(loaded.arrays["frames"], pictures)


# Files that are not recordings.


def cut_short(path: Path) -> None:
    recording().save(path)
    path.write_bytes(path.read_bytes()[:-10])


def text(path: Path) -> None:
    path.write_text("turn,agent,reward\n1,0,0.5\n")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def others_weights(path: Path) -> None:
    save_file({"weight": np.zeros(3, np.float32)}, path)


def others_metadata(path: Path) -> None:
    save_file(arrays(), path, metadata={"format": "pt"})


def metadata_that_is_a_list(path: Path) -> None:
    save_file(arrays(), path, metadata={"rookery": "[1, 2]"})


def metadata_that_is_not_json(path: Path) -> None:
    save_file(arrays(), path, metadata={"rookery": "{world"})


def metadata_without_a_world(path: Path) -> None:
    metadata = {name: value for name, value in METADATA.items() if name != "world"}
    save_file(arrays(), path, metadata={"rookery": json.dumps(metadata)})


def arrays_without_actions(path: Path) -> None:
    kept = {name: array for name, array in arrays().items() if name != "actions"}
    save_file(kept, path, metadata={"rookery": json.dumps(METADATA)})


def folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    "spoil",
    [
        cut_short,
        text,
        empty,
        others_weights,
        others_metadata,
        metadata_that_is_a_list,
        metadata_that_is_not_json,
        metadata_without_a_world,
        arrays_without_actions,
        folder,
    ],
    ids=lambda spoil: spoil.__name__,
)
def test_file_that_is_not_a_recording_is_refused_in_one_line(tmp_path, spoil):
    path = tmp_path / "episode.safetensors"
    spoil(path)

    with pytest.raises(ConfigError) as raised:
        Recording.load(path)

    message = str(raised.value)
    assert message.startswith(f"{path} is not a recording of an episode (")
    assert message.endswith("): name a file that rookery recorded.")
    assert "\n" not in message


def test_missing_file_is_refused_in_one_line(tmp_path):
    path = tmp_path / "nowhere.safetensors"

    with pytest.raises(ConfigError) as raised:
        Recording.load(path)

    message = str(raised.value)
    assert str(path) in message
    assert "No such file" in message
    assert "\n" not in message


# Films.


def test_film_without_frames_says_how_to_get_them():
    with pytest.raises(ConfigError) as raised:
        recording().film()

    assert str(raised.value) == (
        "this recording has no pictures: record the episode with film=1."
    )


def test_gif_without_frames_says_how_to_get_them(tmp_path):
    with pytest.raises(
        ConfigError, match="has no pictures: record the episode with film=1"
    ):
        recording().write_gif(tmp_path / "episode.gif")

    assert list(tmp_path.iterdir()) == []


def test_film_has_a_strip_beneath_every_frame():
    pictures = frames()

    film = recording(frames=pictures).film()

    assert len(film) == 3
    assert all(np.array_equal(f[:64], p) for f, p in zip(film, pictures, strict=True))
    assert film[0].shape[0] > 64
    assert len({frame.shape for frame in film}) == 1


def test_film_adds_the_rewards_up():
    pictures = np.zeros((3, 64, 96, 3), np.uint8)
    earned = recording(frames=pictures)
    earned_early = recording(frames=pictures)
    earned_early.arrays["rewards"] = np.array([[2.5, -1], [0, 0], [0, 0]], np.float32)

    late, early = earned.film(), earned_early.film()

    assert not np.array_equal(late[0], early[0])
    assert np.array_equal(late[1], early[1])
    assert np.array_equal(late[2], early[2])


def test_film_shows_scores_where_the_game_has_them():
    pictures = np.zeros((3, 64, 96, 3), np.uint8)
    scores = np.array([[7, 1], [7, 1], [7, 1]], np.float32)
    scored = recording(frames=pictures, scores=scores)
    paid = recording(frames=pictures, rewards=scores)

    assert np.array_equal(scored.film()[2], paid.film()[2])
