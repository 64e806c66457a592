"""Films of episodes as files: GIFs, videos, and sheets of pictures."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from rookery.errors import ConfigError
from rookery.evaluation.images import PAPER, write_gif, write_png
from rookery.evaluation.pictures import Frame
from rookery.storage.files import atomic_write

RECORDING = ".safetensors"
FORMATS = (".gif", ".mp4", ".png", RECORDING)
FPS = 1000 / 120
MOST_FPS = 240
MOST_GIF_FPS = 50
"""GIFs count in hundredths of a second, and viewers slow down those that are faster."""
SHEET = 12
"""Pictures on a sheet."""
SHEET_COLUMNS = 4
GAP = 8
"""Pixels between the pictures of a sheet."""


def check_film(path: Path, fps: float | None) -> None:
    """Check that a film can be written, before its episode is played.

    Raises:
        ConfigError: if the format is unknown, the rate is impossible, or there is no
            ffmpeg for a video.
    """
    extension = path.suffix.lower()
    if extension not in FORMATS:
        raise ConfigError(
            f"'{path}' does not end in {', '.join(FORMATS[:-1])} or {FORMATS[-1]}: name a "
            "file that does."
        )
    if fps is not None:
        _check_fps(extension, fps)
    if extension == ".mp4":
        _find_ffmpeg()


def _check_fps(extension: str, fps: Any) -> None:
    most = MOST_GIF_FPS if extension == ".gif" else MOST_FPS
    if extension not in (".gif", ".mp4"):
        raise ConfigError(f"a {extension} is not a film and has no fps: leave it out.")
    if isinstance(fps, bool) or not isinstance(fps, int | float) or not 0 < fps <= most:
        remedy = ": choose fewer, or write an .mp4" if extension == ".gif" else ""
        raise ConfigError(
            f"fps is {fps!r}, expected turns per second, at most {most} in a "
            f"{extension}{remedy}."
        )


def write_film(path: Path, film: Sequence[Frame], fps: float | None = None) -> None:
    """Write a film that `check_film` has accepted, in the format of its extension."""
    match path.suffix.lower():
        case ".gif":
            write_gif(path, film, 10 * max(2, round(100 / (fps or FPS))))
        case ".mp4":
            _write_video(path, film, fps or FPS)
        case _:
            write_png(path, _sheet(film))


def _write_video(path: Path, film: Sequence[Frame], fps: float) -> None:
    height, width, _ = film[0].shape
    command = [
        _find_ffmpeg(),
        *("-loglevel", "error", "-nostdin", "-y"),
        *("-f", "rawvideo", "-pix_fmt", "rgb24", "-video_size", f"{width}x{height}"),
        *("-framerate", f"{fps:.6g}", "-i", "pipe:0"),
        # Players expect this format of pixels, which needs even sides.
        *("-vf", "pad=ceil(iw/2)*2:ceil(ih/2)*2", "-pix_fmt", "yuv420p"),
        *("-movflags", "+faststart", "-f", "mp4"),
    ]
    with atomic_write(path) as file, TemporaryFile() as complaints:
        process = subprocess.Popen(
            [*command, file.name], stdin=subprocess.PIPE, stderr=complaints
        )
        assert process.stdin is not None
        try:
            with suppress(BrokenPipeError), process.stdin as pipe:
                for frame in film:
                    pipe.write(frame.tobytes())
            failed = process.wait()
        finally:
            process.kill()
            process.wait()
        if failed:
            complaints.seek(0)
            lines = complaints.read().decode(errors="replace").strip().splitlines()
            raise ConfigError(
                f"ffmpeg could not write {path} ({lines[-1] if lines else failed}): write "
                "a .gif instead, or install another ffmpeg."
            )


def _find_ffmpeg() -> str:
    program = shutil.which("ffmpeg")
    if program is None:
        raise ConfigError(
            "an .mp4 needs the program ffmpeg, which is not installed: install it (apt, "
            "brew and conda have it as ffmpeg), or write a .gif."
        )
    return program


def _sheet(film: Sequence[Frame]) -> Frame:
    """Return up to twelve pictures of a film side by side, evenly spaced over time."""
    count = min(SHEET, len(film))
    turns = np.linspace(0, len(film) - 1, count).round().astype(int).tolist()
    frames = [film[turn] for turn in turns]
    height, width, _ = frames[0].shape
    columns = min(SHEET_COLUMNS, count)
    rows = -(-count // columns)
    shape = (rows * (height + GAP) + GAP, columns * (width + GAP) + GAP, 3)
    sheet = np.empty(shape, np.uint8)
    sheet[...] = PAPER
    for i, frame in enumerate(frames):
        top = GAP + i // columns * (height + GAP)
        left = GAP + i % columns * (width + GAP)
        sheet[top : top + height, left : left + width] = frame
    return sheet
