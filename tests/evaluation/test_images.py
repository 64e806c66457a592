"""GIFs, PNGs, and the strip of scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from rookery.errors import ConfigError
from rookery.evaluation.images import save_figure, with_scores, write_gif, write_png

RED, BLUE = (200, 40, 40), (36, 86, 184)
ENTRIES = [("rook 0", RED, "3"), ("rook 1", BLUE, "-1")]


def moving_dot(frames, size=64):
    """Return frames of a chequered floor over which a red square walks."""
    rows, columns = np.indices((size, size)) // 8
    floor = np.where((rows + columns)[..., None] % 2, (246, 239, 225), (241, 232, 215))
    film = np.repeat(floor[None].astype(np.uint8), frames, axis=0)
    for i, frame in enumerate(film):
        frame[8:16, i : i + 8] = RED
    return list(film)


def shown(path):
    with Image.open(path) as gif:
        return [_frame(gif, i) for i in range(gif.n_frames)]


def _frame(gif, index):
    gif.seek(index)
    return np.array(gif.convert("RGB"))


def durations(path):
    with Image.open(path) as gif:
        return [(gif.seek(i), gif.info["duration"])[1] for i in range(gif.n_frames)]


def test_gif_shows_the_frames_it_was_given(tmp_path):
    frames = moving_dot(10)

    write_gif(tmp_path / "a.gif", frames)

    assert np.array_equal(shown(tmp_path / "a.gif"), frames)


def test_gif_loops_forever_at_the_given_speed(tmp_path):
    write_gif(tmp_path / "a.gif", moving_dot(3), milliseconds=200)

    with Image.open(tmp_path / "a.gif") as gif:
        assert gif.info["loop"] == 0
    assert durations(tmp_path / "a.gif") == [200, 200, 200]


def test_equal_frames_are_stored_once_and_shown_for_longer(tmp_path):
    first, second = moving_dot(2)

    write_gif(tmp_path / "a.gif", [first, first, first, second], milliseconds=100)

    assert durations(tmp_path / "a.gif") == [300, 100]


def test_what_does_not_move_does_not_flicker(tmp_path):
    rng = np.random.default_rng(0)
    still = rng.integers(256, size=(32, 32, 3), dtype=np.uint8)
    frames = [np.concatenate([still, frame]) for frame in moving_dot(8, size=32)]

    write_gif(tmp_path / "a.gif", frames)

    upper = [frame[:32] for frame in shown(tmp_path / "a.gif")]
    assert all(np.array_equal(part, upper[0]) for part in upper)


def test_small_things_keep_their_colour_among_many_colours(tmp_path):
    ramp = np.linspace(0, 255, 128 * 128).astype(np.uint8).reshape(128, 128)
    frame = np.stack([ramp, ramp // 2, ramp.T], axis=-1)
    frame[60:70, 60:70] = (0, 255, 0)

    write_gif(tmp_path / "a.gif", [frame])

    centre = shown(tmp_path / "a.gif")[0][65, 65].astype(int)
    assert np.abs(centre - (0, 255, 0)).max() < 16


def test_gif_of_one_plain_frame_can_be_written(tmp_path):
    frame = np.full((8, 8, 3), 77, dtype=np.uint8)

    write_gif(tmp_path / "a.gif", [frame])

    assert np.array_equal(shown(tmp_path / "a.gif"), [frame])


def test_long_gif_of_little_movement_is_small(tmp_path):
    write_gif(tmp_path / "a.gif", moving_dot(100, size=336))

    assert (tmp_path / "a.gif").stat().st_size < 40_000


def test_gif_refuses_frames_of_several_shapes(tmp_path):
    frames = [np.zeros((4, 4, 3), np.uint8), np.zeros((4, 5, 3), np.uint8)]

    with pytest.raises(ValueError, match=r"one shape, got \(4, 4, 3\) and \(4, 5, 3\)"):
        write_gif(tmp_path / "a.gif", frames)


def test_gif_refuses_no_frames(tmp_path):
    with pytest.raises(ValueError, match="one shape, got none"):
        write_gif(tmp_path / "a.gif", [])


def test_gif_is_never_half_written(tmp_path, monkeypatch):
    path = tmp_path / "a.gif"
    write_gif(path, moving_dot(3))
    whole = path.read_bytes()

    def save_half(image, target, **options):
        target.write(whole[: len(whole) // 2])
        assert path.read_bytes() == whole
        raise OSError("disk full")

    monkeypatch.setattr(Image.Image, "save", save_half)
    with pytest.raises(OSError, match="disk full"):
        write_gif(path, moving_dot(5))

    assert path.read_bytes() == whole
    assert list(tmp_path.iterdir()) == [path]


def test_folder_is_created_and_holds_only_the_file(tmp_path):
    path = tmp_path / "run" / "replays" / "a.gif"

    write_gif(path, moving_dot(2))

    assert list(path.parent.iterdir()) == [path]


def test_png_holds_exactly_the_frame(tmp_path):
    frame = np.random.default_rng(0).integers(256, size=(9, 7, 3), dtype=np.uint8)

    write_png(tmp_path / "a.png", frame)

    with Image.open(tmp_path / "a.png") as picture:
        assert np.array_equal(np.array(picture), frame)


def test_scores_are_beneath_an_unchanged_frame():
    frame = moving_dot(1, size=320)[0]

    taller = with_scores(frame, ENTRIES)

    assert np.array_equal(taller[:320], frame)
    assert taller.shape[0] > 320
    assert taller.shape[1:] == frame.shape[1:]


def test_each_agent_has_a_dot_of_its_colour():
    strip = with_scores(moving_dot(1, size=320)[0], ENTRIES)[320:]

    assert (strip == RED).all(axis=-1).sum() > 20
    assert (strip == BLUE).all(axis=-1).sum() > 20


def test_note_is_at_the_right():
    frame = moving_dot(1, size=320)[0]

    with_note, other = (with_scores(frame, ENTRIES, note) for note in ("turn 7", "turn 8"))

    assert with_note.shape == other.shape
    columns = np.argwhere((with_note != other).any(axis=(0, 2)))
    assert columns.min() > 280


@pytest.mark.parametrize("score", ["0", "-12.5", "1000000000"])
def test_height_does_not_depend_on_the_scores(score):
    frame = moving_dot(1, size=160)[0]

    taller = with_scores(frame, [("a rook", RED, score)] * 4, "turn 1")

    assert taller.shape == with_scores(frame, [("a rook", RED, "1")] * 4, "turn 1").shape


def test_many_agents_take_several_rows():
    frame = moving_dot(1, size=160)[0]

    few, many = (with_scores(frame, ENTRIES * times) for times in (1, 6))

    assert many.shape[0] > few.shape[0]
    assert many.shape[1] == few.shape[1]


def test_long_name_is_shortened_so_that_its_score_is_visible():
    frame = moving_dot(1, size=160)[0]
    name = "a rook with a very long name indeed"

    low, high = (with_scores(frame, [(name, RED, score)]) for score in ("1", "8"))

    assert not np.array_equal(low, high)


def test_no_agents_and_no_note_leave_the_frame_as_it_is():
    frame = moving_dot(1, size=160)[0]

    assert np.array_equal(with_scores(frame, []), frame)


def test_a_figure_of_an_unknown_format_is_refused_in_one_line(tmp_path: Path) -> None:
    figure = pytest.importorskip("matplotlib.figure").Figure()

    with pytest.raises(
        ConfigError, match=r"the picture .*x\.foo cannot be written"
    ) as raised:
        save_figure(figure, tmp_path / "x.foo")
    assert "\n" not in str(raised.value)
    with pytest.raises(ConfigError, match="name a file such as"):
        save_figure(figure, tmp_path / "none" / "x.png")
