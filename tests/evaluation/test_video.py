"""Films as files: GIFs, videos and sheets, and what cannot be written."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from rookery.errors import ConfigError
from rookery.evaluation.play import play
from rookery.evaluation.recordings import Recording


@pytest.fixture(scope="module")
def recording() -> Recording:
    settings = {"turns": 14, "height": 5, "width": 6}
    return play("treasurehunt", film=1, game=settings).recordings[0]


@pytest.mark.parametrize(
    ("fps", "milliseconds"), [(None, 120), (10, 100), (50, 20), (0.5, 2000)]
)
def test_a_gif_shows_as_many_turns_per_second_as_chosen(
    recording: Recording, tmp_path: Path, fps: float | None, milliseconds: int
) -> None:
    recording.write(tmp_path / "new" / "film.gif", fps=fps)

    with Image.open(tmp_path / "new" / "film.gif") as gif:
        assert gif.n_frames == 14
        assert gif.info["duration"] == milliseconds


def test_a_sheet_has_twelve_pictures_from_the_first_to_the_last(
    recording: Recording, tmp_path: Path
) -> None:
    film = recording.film(size=96)
    height, width, _ = film[0].shape

    recording.write(tmp_path / "sheet.png", size=96)

    sheet = np.asarray(Image.open(tmp_path / "sheet.png"))
    assert sheet.shape == (3 * (height + 8) + 8, 4 * (width + 8) + 8, 3)
    assert np.array_equal(sheet[8 : 8 + height, 8 : 8 + width], film[0])
    assert np.array_equal(sheet[-8 - height : -8, -8 - width : -8], film[-1])


def test_a_recording_is_written_as_itself(recording: Recording, tmp_path: Path) -> None:
    recording.write(tmp_path / "episode.safetensors")

    assert len(Recording.load(tmp_path / "episode.safetensors").film()) == 14


@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="needs ffmpeg")
def test_a_video_has_all_turns(recording: Recording, tmp_path: Path) -> None:
    recording.write(tmp_path / "film.mp4", fps=7, size=96)

    assert (tmp_path / "film.mp4").read_bytes()[4:8] == b"ftyp"
    assert [path.name for path in tmp_path.iterdir()] == ["film.mp4"]


def stand_in(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a program called ffmpeg before all others."""
    program = folder / "bin" / "ffmpeg"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=":")


def test_ffmpeg_gets_every_picture_and_its_size(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It writes its arguments and its input to the last argument, which is the video.
    script = 'for last; do :; done; { echo "$@"; cat; } > "$last"'
    stand_in(tmp_path, script, monkeypatch)

    recording.write(tmp_path / "film.mp4", fps=7, size=96)

    arguments, _, data = (tmp_path / "film.mp4").read_bytes().partition(b"\n")
    film = recording.film(size=96)
    height, width, _ = film[0].shape
    assert f"-video_size {width}x{height} -framerate 7 -i pipe:0".encode() in arguments
    assert data == b"".join(frame.tobytes() for frame in film)


def test_a_video_that_ffmpeg_cannot_write_is_one_line_and_no_file(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, "echo some text >&2; echo no encoder >&2; exit 1", monkeypatch)

    with pytest.raises(ConfigError) as raised:
        recording.write(tmp_path / "film.mp4")

    assert str(raised.value) == (
        f"ffmpeg could not write {tmp_path}/film.mp4 (no encoder): write a .gif instead, "
        "or install another ffmpeg."
    )
    assert [path.name for path in tmp_path.iterdir()] == ["bin"]


def test_a_video_without_ffmpeg_says_what_to_install(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ConfigError) as raised:
        recording.write(tmp_path / "film.mp4")

    assert str(raised.value) == (
        "an .mp4 needs the program ffmpeg, which is not installed: install it (apt, brew "
        "and conda have it as ffmpeg), or write a .gif."
    )


@pytest.mark.parametrize(
    ("name", "fps", "words"),
    [
        ("film.avi", None, "does not end in .gif, .mp4, .png or .safetensors: name a file"),
        ("film", None, "does not end in .gif, .mp4, .png or .safetensors: name a file"),
        ("film.gif", 0, "fps is 0, expected turns per second, at most 50 in a .gif"),
        ("film.gif", 60, "at most 50 in a .gif: choose fewer, or write an .mp4"),
        ("film.gif", float("nan"), "fps is nan, expected turns per second"),
        ("film.gif", "fast", "fps is 'fast', expected turns per second"),
        ("film.png", 10, "a .png is not a film and has no fps: leave it out"),
    ],
)
def test_a_film_that_cannot_be_written_is_refused(
    recording: Recording, tmp_path: Path, name: str, fps: Any, words: str
) -> None:
    with pytest.raises(ConfigError) as raised:
        recording.write(tmp_path / name, fps=fps)

    assert words in str(raised.value)
    assert list(tmp_path.iterdir()) == []


def test_a_gif_that_would_fill_the_memory_is_refused(
    recording: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rookery.evaluation.images.MOST_GIF_BYTES", 1000)

    with pytest.raises(ConfigError, match=r"a GIF of 14 pictures takes .* GiB of memory"):
        recording.write(tmp_path / "film.gif")
