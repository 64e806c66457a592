"""The cases of fuzz.py: damaged configurations and damaged headers."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from rookery.config.resolve import describe_settings
from rookery.config.run import Config
from rookery.config.toml import to_toml
from rookery.games.registry import entries_by_name
from rookery.runs.configure import configure
from rookery.storage.checkpoints import load_checkpoint, save_checkpoint, sum_of_manifest

NASTY = [
    *("-1", "0", "1e400", "nan", "-inf", "0x7fffffffffffffff", "99999999999999999999"),
    *('""', '"x"', "'../../etc/passwd'", '"\\u0000"', '"é"', "true", "1979-05-27", "1.5"),
    *("[]", "[1, [2]]", "{}", "{a = 1}", "[[[[[[[[]]]]]]]]", "", "=", "[", '"', "1_0_"),
    *('"./evil.py:Evil"', '"os:system"', '"pettingzoo:os"', '"random"', '"ppo"', "007"),
    *('"' + "x" * 5000 + '"', "[" * 200, "9" * 5000, "a." * 200 + "a"),
]
NUMBERS = [-1, 0, 1, 2**31, 2**53, 2**63, 2**64, 10**30, 0.5, True, None, "1", [], [1], {}]


# Configurations.


def bad_texts(draw: random.Random) -> Iterator[tuple[str, str]]:
    """Yield games with damaged configuration files, forever."""
    whole = {name: to_toml(configure(name)[1]) for name in entries_by_name()}
    while True:
        game = draw.choice(sorted(whole))
        text = whole[game]
        for _ in range(draw.randint(1, 3)):
            text = draw.choice(TEXT_CHANGES)(draw, text)
        yield game, text


def _random_setting(draw: random.Random, lines: list[str]) -> int:
    indices = [i for i, line in enumerate(lines) if "=" in line and line[:1] != "#"]
    return draw.choice(indices or [0])


def change_value(draw: random.Random, text: str) -> str:
    """Give a setting a value that it cannot have."""
    lines = text.split("\n")
    index = _random_setting(draw, lines)
    lines[index] = f"{lines[index].partition('=')[0]}= {draw.choice(NASTY)}"
    return "\n".join(lines)


def change_key(draw: random.Random, text: str) -> str:
    """Misspell the name of a setting."""
    lines = text.split("\n")
    index = _random_setting(draw, lines)
    at = draw.randint(0, max(0, lines[index].find("=") - 1))
    lines[index] = lines[index][:at] + draw.choice("xé.-\"' ") + lines[index][at + 1 :]
    return "\n".join(lines)


def change_line(draw: random.Random, text: str) -> str:
    """Repeat a line somewhere else."""
    lines = text.split("\n")
    line = lines[_random_setting(draw, lines)]
    lines.insert(draw.randint(0, len(lines)), line)
    return "\n".join(lines)


def change_table(draw: random.Random, text: str) -> str:
    """Add an unknown or repeated table."""
    names = ("nothing", "agents.7", "agents.0.network.x", "game", "agents", "a.b.c.d", "")
    return f"{text}\n[{draw.choice(names)}]\n{draw.choice(('', 'x = 1', 'player = 3'))}\n"


def change_character(draw: random.Random, text: str) -> str:
    """Damage one character."""
    at = draw.randrange(max(1, len(text)))
    return (
        text[:at] + chr(draw.choice((0, 9, 34, 61, 91, 127, 255, 0x202E))) + text[at + 1 :]
    )


def cut_off(draw: random.Random, text: str) -> str:
    """Cut the text off at a random place."""
    return text[: draw.randrange(max(1, len(text)))]


TEXT_CHANGES = (
    change_value,
    change_value,
    change_key,
    change_line,
    change_table,
    change_character,
    cut_off,
)


def bad_overrides(draw: random.Random) -> Iterator[tuple[str, list[str]]]:
    """Yield games with bad overrides, forever."""
    run_keys = [row.key.replace("<id>", "0") for row in describe_settings(Config)]
    game_keys = {
        name: [row.key for row in describe_settings(entry.settings, "game")]
        for name, entry in entries_by_name().items()
    }
    while True:
        game = draw.choice(sorted(game_keys))
        keys = run_keys + game_keys[game]
        overrides = []
        for _ in range(draw.randint(1, 4)):
            key = draw.choice(keys)
            if draw.random() < 0.3:
                at = draw.randrange(len(key))
                key = key[:at] + draw.choice((".", "x", '"', " ", "=", "")) + key[at + 1 :]
            overrides.append(
                f"{key}{draw.choice(('=', '=', '=', '', '=='))}{draw.choice(NASTY)}"
            )
        yield game, overrides


# Headers.

ARRAYS = {
    "actor": {"life/turn": np.array([8]), "game/points": np.zeros((2, 3), np.float32)},
    "agent-0": {
        "weights.a": np.ones((3, 2), np.float32),
        "counters": np.zeros(2, np.int64),
    },
    "replay-0": {"rows": np.zeros((4, 21), np.uint8)},
}


def change_header(draw: random.Random, data: bytes) -> bytes:
    """Change an entry of the header of a file."""
    length = int.from_bytes(data[:8], "little")
    header, rest = json.loads(data[8 : 8 + length]), data[8 + length :]
    name = draw.choice(sorted(header))
    entry = header[name]
    kind = draw.randrange(8)
    if kind == 0:
        entry["shape"] = draw.choice((NUMBERS, [draw.choice(NUMBERS)] * draw.randint(0, 3)))
    elif kind == 1:
        entry["data_offsets"] = [draw.choice(NUMBERS), draw.choice(NUMBERS)]
    elif kind == 2:
        entry["dtype"] = draw.choice(["F64", "I8", "OBJECT", "", "f32", 3, None, ["F32"]])
    elif kind == 3:
        header[name] = draw.choice(NUMBERS)
    elif kind == 4:
        del entry[draw.choice(sorted(entry))]
    elif kind == 5:
        header["__metadata__"] = draw.choice([*NUMBERS[:-1], {"a": 1}, {"a": {"b": []}}])
    elif kind == 6:
        header[f"{name}2"] = dict(entry)
    else:
        header = draw.choice(NUMBERS)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + rest


def change_length(draw: random.Random, data: bytes) -> bytes:
    """Change the length of the header."""
    length = draw.choice(
        [0, 1, 2**20, 2**31, 2**63, 2**64 - 1, draw.randrange(2 * len(data))]
    )
    return length.to_bytes(8, "little") + data[8:]


def change_bytes(draw: random.Random, data: bytes) -> bytes:
    """Damage some bytes of a header."""
    damaged = bytearray(data)
    end = min(len(data), 8 + int.from_bytes(data[:8], "little"))
    for _ in range(draw.randint(1, 4)):
        damaged[draw.randrange(end)] = draw.randrange(256)
    return bytes(damaged)


def change_size(draw: random.Random, data: bytes) -> bytes:
    """Truncate or extend a file."""
    return data[: draw.randrange(len(data))] if draw.random() < 0.7 else data + b"more"


def change_nesting(draw: random.Random, data: bytes) -> bytes:
    """Nest a header deeply."""
    depth = draw.choice((100, 10_000, 500_000))
    text = (b'{"a":' if draw.random() < 0.5 else b"[") * depth
    text = text[: 2**20]
    return len(text).to_bytes(8, "little") + text


FILE_CHANGES = (change_header,) * 4 + (
    change_length,
    change_bytes,
    change_bytes,
    change_size,
    change_nesting,
)


def change_manifest(draw: random.Random, manifest: dict[str, Any]) -> None:
    """Change an entry of a manifest."""
    odd = [*NUMBERS, "../x.safetensors", "x" * 70, float("nan")]
    files, name = manifest["files"], draw.choice(sorted(manifest["files"]))
    kind = draw.randrange(6)
    if kind == 0:
        manifest[draw.choice(["round", "layout", "files"])] = draw.choice(odd)
    elif kind == 1:
        files[name] = draw.choice(odd)
    elif kind == 2:
        files[name][draw.randrange(2)] = draw.choice(odd)
    elif kind == 3:
        files[str(draw.choice(odd))] = files.pop(name)
    elif kind == 4:
        del manifest[draw.choice(sorted(manifest))]
    else:
        files[name] = [*files[name], draw.choice(odd)]


class Headers:
    """A checkpoint of which one file at a time is damaged."""

    def __init__(self, folder: Path, draw: random.Random) -> None:
        self._path = save_checkpoint(folder, 4, ARRAYS, {"rows": {"0": "a"}})
        self._draw = draw
        self._whole = {file.name: file.read_bytes() for file in self._path.iterdir()}

    def damage(self) -> None:
        """Restore all files, then damage one."""
        for name, data in self._whole.items():
            (self._path / name).write_bytes(data)
        manifest = json.loads(self._whole["manifest.json"])
        with_sums = self._draw.random() < 0.5
        if self._draw.random() < 0.4:
            self._damage_manifest(manifest, with_sums)
        else:
            self._damage_file(manifest, with_sums)

    def _damage_manifest(self, manifest: dict[str, Any], with_sums: bool) -> None:
        data = self._whole["manifest.json"]
        if with_sums:
            change_manifest(self._draw, manifest)
            manifest["sum"] = sum_of_manifest(manifest)
            data = json.dumps(manifest).encode()
        else:
            data = self._draw.choice((change_bytes, change_size, change_nesting))(
                self._draw, data
            )
        (self._path / "manifest.json").write_bytes(data)

    def _damage_file(self, manifest: dict[str, Any], with_sums: bool) -> None:
        name = self._draw.choice(sorted(manifest["files"]))
        data = self._draw.choice(FILE_CHANGES)(self._draw, self._whole[name])
        (self._path / name).write_bytes(data)
        if with_sums:
            manifest["files"][name] = [len(data), hashlib.sha256(data).hexdigest()]
            manifest["sum"] = sum_of_manifest(manifest)
            (self._path / "manifest.json").write_bytes(json.dumps(manifest).encode())

    def load(self) -> None:
        """Read the checkpoint as a resumed run does."""
        load_checkpoint(self._path)
