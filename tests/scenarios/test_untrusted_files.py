"""Files from others cannot run code, write outside the run folder or use up memory."""

from __future__ import annotations

import ast
import json
import os
import pickle
import re
import shutil
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save as save_bytes

from rookery.api.agents import load_agent
from rookery.cli.app import app
from rookery.errors import RookeryError
from rookery.evaluation.recordings import Recording
from rookery.runs.agent_files import export_agent, read_agent
from rookery.runs.configure import configure
from rookery.runs.resume import resumed_config
from rookery.runs.run import Run
from rookery.runs.session import Session
from rookery.storage.arrays import read_arrays, to_checked_bytes
from rookery.storage.checkpoints import checkpoints_in, load_checkpoint, sum_of_manifest
from tests.paths import PACKAGE
from tests.small import GAME, session_of, train

A_LITTLE = 32 * 2**20
"""Bytes of memory that refusing a file may take: a parsed header and manifest."""


class Sentinel:
    """A file that appears if code from an untrusted file is run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.path}",)

    @property
    def pickled(self) -> bytes:
        return pickle.dumps(self)

    @property
    def code(self) -> str:
        touch = f"import pathlib; pathlib.Path({str(self.path)!r}).touch()"
        return f"{touch}\nclass Evil: ...\n"


@pytest.fixture
def sentinel(tmp_path: Path) -> Iterator[Sentinel]:
    sentinel = Sentinel(tmp_path / "was-run")
    yield sentinel
    assert not sentinel.path.exists(), "code from a file was run"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained") / "run"
    train(folder, **{"checkpoints.every_rounds": 0})
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "run")
    return tmp_path / "run"


def newest(run: Path) -> Path:
    return checkpoints_in(run / "checkpoints")[0]


def rewrite(path: Path, change: Callable[[dict], object]) -> None:
    """Change a manifest and update its checksum."""
    manifest = json.loads((path / "manifest.json").read_text())
    change(manifest)
    manifest["sum"] = sum_of_manifest(manifest)
    (path / "manifest.json").write_text(json.dumps(manifest))


def resume(run: Path) -> None:
    opened = Run(run)
    Session(opened.entry, resumed_config(opened), run, resume=True)


def refused(call: Callable[..., object], *arguments: Any) -> str:
    """Return the one-line error of a call that must fail and use little memory."""
    tracemalloc.start()
    try:
        with pytest.raises(RookeryError) as error:
            call(*arguments)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "\n" not in str(error.value)
    assert peak < A_LITTLE
    return str(error.value)


def reseal(path: Path, data: bytes) -> None:
    """Replace a file of a checkpoint and update the manifest."""
    import hashlib

    path.write_bytes(data)
    entry = [len(data), hashlib.sha256(data).hexdigest()]
    rewrite(path.parent, lambda m: m["files"].update({path.name: entry}))


# Pickles.


@pytest.mark.parametrize("name", ["manifest.json", "actor.safetensors"])
def test_a_pickle_in_a_checkpoint_is_not_opened(
    name: str, run: Path, sentinel: Sentinel
) -> None:
    path = newest(run) / name
    if name == "manifest.json":
        path.write_bytes(sentinel.pickled)
    else:
        reseal(path, sentinel.pickled)

    assert "is damaged" in refused(resume, run)


def test_a_pickle_instead_of_weights_an_agent_or_a_recording_is_not_opened(
    run: Path, sentinel: Sentinel, tmp_path: Path
) -> None:
    weights = run / "weights" / "round-4.safetensors"
    weights.write_bytes(sentinel.pickled)
    agent = tmp_path / "agent.safetensors"
    agent.write_bytes(sentinel.pickled)

    assert "round-4.safetensors cannot be read" in refused(Run(run).players)
    assert "agent.safetensors cannot be read" in refused(read_agent, agent)
    assert "is not a recording" in refused(Recording.load, agent)
    assert "cannot be read" in refused(
        lambda: session_of(tmp_path / "new", agents={"0": {"from": str(agent)}})
    )


# Paths.

ELSEWHERE = {
    "up": "../../secret.safetensors",
    "absolute": "/etc/passwd",
    "in a folder": "more/actor.safetensors",
    "nothing": "",
    "the folder itself": ".",
    "hidden": ".secret.safetensors",
    "with a NUL": "actor\0.safetensors",
    "with a line break": "actor\n.safetensors",
}


@pytest.mark.parametrize("name", ELSEWHERE.values(), ids=ELSEWHERE)
def test_a_manifest_cannot_name_files_outside_its_folder(name: str, run: Path) -> None:
    path = newest(run)
    shutil.copy(path / "actor.safetensors", run / "secret.safetensors")
    rewrite(path, lambda m: m["files"].update({name: m["files"]["actor.safetensors"]}))

    assert "names files that a checkpoint cannot have" in refused(load_checkpoint, path)


@pytest.mark.parametrize("name", ["manifest.json", "actor.safetensors", "", ".."])
def test_links_in_a_checkpoint_are_not_followed(name: str, run: Path) -> None:
    link = newest(run) / name
    link = link.parent.parent if name == ".." else link
    moved = run.parent / "moved"
    link.rename(moved)
    link.symlink_to(moved)

    assert "is a link, and a run must not contain links" in refused(resume, run)
    if name != "..":
        said = refused(load_checkpoint, newest(run))
        assert "is a link" in said or "cannot be read (Too many levels" in said


WRITTEN = ("metrics.jsonl", "events.jsonl", "weights/.round-9.safetensors.1.partial")


@pytest.mark.parametrize("name", WRITTEN)
def test_nothing_is_written_through_a_link_in_a_run(name: str, run: Path) -> None:
    victim = run.parent / "victim"
    victim.write_text("mine")
    (run / name).unlink(missing_ok=True)
    (run / name).symlink_to(victim)

    refused(resume, run)

    assert victim.read_text() == "mine"


def test_a_link_to_the_checkpoints_of_another_run_does_not_delete_them(run: Path) -> None:
    other = run.parent / "other"
    (run / "checkpoints").rename(other)
    (run / "checkpoints").symlink_to(other)

    refused(resume, run)

    assert len(checkpoints_in(other)) == 1


def test_a_named_pipe_is_refused_without_waiting_for_it(run: Path) -> None:
    path = newest(run) / "actor.safetensors"
    path.unlink()
    os.mkfifo(path)

    assert "it is not a regular file" in refused(resume, run)


# Code named by files.

NAMED = {
    "a game's file": ('name = "iterated_chicken"', 'name = "./evil.py:Evil"', "--game"),
    "a game's module": ('name = "iterated_chicken"', 'name = "evil:Evil"', "--game"),
    "a foreign game": ('name = "iterated_chicken"', 'name = "pettingzoo:evil"', "--game"),
    "a Gymnasium game": ('name = "iterated_chicken"', 'name = "gymnasium:evil"', "--game"),
    "an algorithm": ('algorithm = "ppo"', 'algorithm = "./evil.py:Evil"', "--algorithm"),
    "a module": ('algorithm = "ppo"', 'algorithm = "evil:Evil"', "--algorithm"),
    "a player": ('player = "random"', 'player = "./evil.py:Evil"', ""),
}


@pytest.mark.parametrize(("old", "new", "word"), NAMED.values(), ids=NAMED)
def test_a_run_cannot_name_code_and_the_error_says_which_option_to_add(
    old: str,
    new: str,
    word: str,
    run: Path,
    sentinel: Sentinel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (run.parent / "evil.py").write_text(sentinel.code)
    monkeypatch.chdir(run.parent)
    monkeypatch.syspath_prepend(run.parent)
    config = (run / "config.toml").read_text()
    assert old in config
    (run / "config.toml").write_text(config.replace(old, new))
    evil = new.split('"')[1]

    for command in ("resume", "evaluate", "replay"):
        said = refused(app, [command, "run"], None, None, False, False)
        assert not word or f"If you trust this code, add: {word} {evil}" in said
    said = refused(configure, None, (), run / "config.toml") if word == "--game" else ""
    assert not said or "name it on the command line, too" in said


def test_a_configuration_file_cannot_name_a_custom_algorithm(
    run: Path, sentinel: Sentinel, monkeypatch: pytest.MonkeyPatch
) -> None:
    (run.parent / "evil.py").write_text(sentinel.code)
    monkeypatch.chdir(run.parent)
    config = (run / "config.toml").read_text()
    Path("c.toml").write_text(config.replace('"ppo"', '"./evil.py:Evil"'))

    said = refused(app, ["train", "--config", "c.toml"], None, None, False, False)

    assert said.endswith("name it on the command line, too: algorithm=./evil.py:Evil")


def test_an_exported_agent_cannot_name_code(
    run: Path, sentinel: Sentinel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "evil.py").write_text(sentinel.code)
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "agent.safetensors"
    export_agent(Run(run), "0", file, weights_only=False)
    arrays, metadata = read_arrays(file, 2**30)
    described = metadata["agent"].replace('"algorithm": "ppo"', '"algorithm": "evil:Evil"')
    metadata |= {"agent": described, "algorithm": "evil:Evil"}
    file.write_bytes(to_checked_bytes(arrays, metadata))

    said = refused(load_agent, file)
    session = session_of(tmp_path / "new", agents={"0": {"from": str(file)}})
    session.run(lambda _: None)

    assert "add: algorithm='evil:Evil'" in said
    assert session.done == 4  # it continues learning, with the algorithm configured here


# Sizes.


def header(**arrays: Any) -> bytes:
    text = json.dumps(arrays).encode()
    return len(text).to_bytes(8, "little") + text


def entry(shape: list[Any], begin: int, end: int, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


TIB = 2**40
FORGED = {
    "a huge array": header(x=entry([TIB], 0, 4 * TIB)),
    "huge on both sides": header(x=entry([2**31, 2**31], 0, 2**64)),
    "an overflow": header(x=entry([2**62, 4], 0, 0)),
    "a negative shape": header(x=entry([-1], 0, 4)) + b"1234",
    "a shape of text": header(x=entry(["1"], 0, 4)) + b"1234",
    "a shape of true": header(x=entry([True], 0, 4)) + b"1234",
    "no number": header(x=entry([float("nan")], 0, 4)) + b"1234",
    "an unknown type": header(x=entry([1], 0, 4, "OBJECT")) + b"1234",
    "a type that is a list": header(x=entry([1], 0, 4, ["F32"])) + b"1234",
    "a gap": header(x=entry([1], 4, 8)) + b"12345678",
    "two in one place": header(x=entry([1], 0, 4), y=entry([1], 0, 4)) + b"1234",
    "too long": header(x=entry([1], 0, 4)) + b"12345",
    "a header of 16 EiB": (2**64 - 1).to_bytes(8, "little") + b"{}",
    "a header of 90 MB": (90 * 10**6).to_bytes(8, "little") + b"{}",
    "a header of 2 MB": (2 * 10**6).to_bytes(8, "little") + b" " * (2 * 10**6),
    "deep": (10**6).to_bytes(8, "little") + b"[" * 10**6,
    "twice the same": (17).to_bytes(8, "little") + b'{"x":{},  "x":{}}',
    "digits": (5006).to_bytes(8, "little") + b'{"x":' + b"9" * 5000 + b"}",
    "a list": (2).to_bytes(8, "little") + b"[]",
    "nothing": b"",
    "three bytes": b"\0\0\0",
    "no text": (2).to_bytes(8, "little") + b"\xff\xfe",
}


@pytest.mark.parametrize("data", FORGED.values(), ids=FORGED)
def test_a_forged_header_costs_nothing(data: bytes, run: Path, tmp_path: Path) -> None:
    file = tmp_path / "agent.safetensors"
    file.write_bytes(data)
    reseal(newest(run) / "agent-0.safetensors", data)

    assert "agent-0.safetensors is damaged" in refused(load_checkpoint, newest(run))
    assert "cannot be read" in refused(read_agent, file)
    refused(Recording.load, file)


def test_a_sparse_file_of_one_tebibyte_costs_nothing(run: Path, tmp_path: Path) -> None:
    data = header(rows=entry([TIB], 0, TIB, "U8"))
    path = newest(run) / "replay-0.safetensors"
    for file in (path, run / "weights" / "round-4.safetensors", tmp_path / "a"):
        file.write_bytes(data)
        os.truncate(file, len(data) + TIB)
    size = path.stat().st_size
    rewrite(newest(run), lambda m: m["files"].update({path.name: [size, "0" * 64]}))

    assert "'replay-0' does not fit this run" in refused(resume, run)
    assert "expected at most" in refused(Run(run).players)
    assert "expected at most" in refused(read_agent, tmp_path / "a")
    assert "expected at most" in refused(Recording.load, tmp_path / "a")


def test_arrays_of_other_shapes_are_refused_before_they_are_read(run: Path) -> None:
    path = newest(run) / "agent-0.safetensors"
    reseal(path, save_bytes({"weights": np.zeros(10**6)}))
    (run / "weights" / "round-4.safetensors").write_bytes(
        save_bytes({"0/strange": np.zeros(3, np.float32)})
    )

    assert "'agent-0' does not fit this run" in refused(resume, run)
    assert "does not fit this run" in refused(Run(run).players)


def test_an_agent_whose_arrays_are_of_other_shapes_is_refused(
    run: Path, tmp_path: Path
) -> None:
    file = tmp_path / "agent.safetensors"
    export_agent(Run(run), "0", file, weights_only=False)
    agent = read_agent(file)
    metadata = {"kind": "rookery agent", "algorithm": "ppo", "shape": agent.shape}
    file.write_bytes(save_bytes(agent.arrays | {"counters": np.zeros(9)}, metadata))
    settings = {"agents": {"0": {"from": str(file)}}}

    said = refused(lambda: session_of(tmp_path / "a", **settings))

    assert "its arrays are of another shape; use the same settings" in said


def described(file: Path, **changes: Any) -> None:
    """Change what a file says about the agent in it, with a checksum that matches."""
    arrays, metadata = read_arrays(file, 2**30)
    description = json.loads(metadata["agent"])
    for name, value in changes.items():
        group, _, key = name.rpartition("__")
        (description[group] if group else description)[key] = value
    metadata["agent"] = json.dumps(description)
    file.write_bytes(to_checked_bytes(arrays, metadata))


HUGE = [[2**20, 2**10], "<f4", [], 1.0]
LIES: dict[str, Any] = {
    "no spec": ({"spec": None}, "does not describe an agent"),
    "no parts": ({"spec__parts": {}}, "with 0 parts"),
    "a part of objects": ({"spec__parts": {"past": [[2], "O", [], 1.0]}}, "as object"),
    "a negative shape": ({"spec__parts": {"past": [[-2], "<f4", [], 1.0]}}, "not a shape"),
    "a shape of text": ({"spec__parts": {"past": ["ab", "<f4", [], 1.0]}}, "not a shape"),
    "an endless shape": ({"spec__parts": {"past": [[2**62], "<f4", [], 1.0]}}, "too many"),
    "another part": (
        {"spec__parts": {"x": [[9], "<f4", [], 1.0]}},
        "do not fit its settings",
    ),
    "a huge part": ({"spec__parts": {"x": HUGE}}, "do not fit|larger than the memory"),
    "an unknown setting": ({"settings__evil": 1}, "'evil': Extra inputs are not permitted"),
    "a wrong setting": ({"settings__frames": 10**9}, "'frames': Input should be less"),
    "negative worlds": ({"worlds": -1}, "number, round and worlds"),
    "an unknown algorithm": ({"settings__algorithm": "evil"}, "unknown algorithm 'evil'"),
}


@pytest.mark.parametrize(("changes", "words"), LIES.values(), ids=LIES)
def test_a_forged_description_of_an_agent_is_refused(
    run: Path, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    file = tmp_path / "agent.safetensors"
    export_agent(Run(run), "0", file, weights_only=False)
    described(file, **changes)

    assert re.search(words, refused(load_agent, file))


@pytest.mark.parametrize(("shape", "words"), [([9], "does not fit"), ([2**31], "memory")])
def test_recorded_agents_can_neither_name_code_nor_take_up_memory(
    run: Path, sentinel: Sentinel, shape: list[int], words: str
) -> None:
    (run.parent / "evil.py").write_text(sentinel.code)
    config = (run / "config.toml").read_text()
    (run / "config.toml").write_text(config.replace(GAME, f"{run.parent}/evil.py:Evil"))
    specs = json.loads((run / "agents.json").read_text())
    for spec in specs["agents"]:
        spec["parts"] = {"past": [shape, "<f4", [], 1.0]}
    specs["sum"] = sum_of_manifest(specs)
    (run / "agents.json").write_text(json.dumps(specs))

    assert words in refused(load_agent, run)


BOMBS = {
    "deep lists": "rounds = " + "[" * 10**5,
    "deep keys": ".".join("a" * 10**4) + " = 1",
    "deep tables": "[" + ".".join("a" * 10**4) + "]",
    "a long number": "rounds = " + "9" * 10**5,
    "long words": "rounds = " + '"' * 10**4 + "a." * 60 + "a b" * 10**4,
    "quoted keys": ".".join(['"a b"'] * 10**4) + " = 1",
    "an inline table": "a = {" + " . ".join("a" * 10**4) + " = 1}",
    "a long file": "# " + "x" * 2**21,
    "many keys": "\n".join(f"k{i} = 1" for i in range(10**4)),
    "a NUL": "rounds = 1\0",
    "a huge count": "rounds = 9223372036854775807\nworlds = 9223372036854775807",
    "an agent that matches for ever": '[agents."' + "*a" * 60 + '*b"]\nplayer = "random"',
}


@pytest.mark.parametrize("text", BOMBS.values(), ids=BOMBS)
def test_a_configuration_that_is_a_bomb_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)

    refused(lambda: _agents(*configure(GAME, (), file)))


def _agents(entry: Any, config: Any) -> None:
    from rookery.algorithms.agents import build_agents
    from rookery.evaluation.play import agents_of

    build_agents(config, agents_of(entry, config))


LOGS = ("metrics.jsonl", "evaluations.jsonl", "episodes.jsonl")
LAST_LINES = {
    "deep lists": ("[" * 10**5, []),
    "a round that is not a number": ('{"round": "x"}', [{"round": "x"}]),
    "not UTF-8": ("\xff", []),
    "a list": ("[1]", []),
    "no round": ("{}", [{}]),
}


@pytest.mark.parametrize(("text", "readable"), LAST_LINES.values(), ids=LAST_LINES)
def test_a_resumed_run_keeps_the_log_lines_before_the_first_unreadable_one(
    text: str, readable: list[dict[str, Any]], run: Path
) -> None:
    first = {"round": 1}
    for name in LOGS:
        (run / name).write_text(f"{json.dumps(first)}\n{text}\n[2]\n", encoding="latin-1")

    resume(run)

    for name in LOGS:
        lines = (run / name).read_text().splitlines()
        assert [json.loads(line) for line in lines] == [first, *readable]


# Our own code.

FORBIDDEN = {
    "pickle",
    "cPickle",
    "_pickle",
    "marshal",
    "shelve",
    "joblib",
    "dill",
    "cloudpickle",
    "yaml",
    "eval",
    "exec",
    "compile",
    "__import__",
    "allow_pickle",
    "torch.load",
    "torch.jit",
    "np.load",
    "numpy.load",
}
IMPORTING = {"import_module", "spec_from_file_location", "exec_module", "run_path"}
ALLOWED = {
    "__init__.py": "public names, from a table in the file",
    "plugins.py": "what the user names on the command line or in Python",
    "algorithms/registry.py": "the modules of rookery.algorithms",
    "games/registry.py": "the modules of rookery.games.builtin, and adapters",
    "supervisor/child.py": "what a process is for, from a table in the file",
    "api/display.py": "IPython, which only notebooks have",
    "bench/contender.py": "the modules of rookery.bench that other interpreters run",
    "bench/game.py": "a game named in the file",
    "bench/measure.py": "the modules of rookery.bench",
}


def names_in(source: str) -> set[str]:
    """Return every name that code uses: imports, attributes, arguments."""
    used: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            used |= {part for name in node.names for part in name.name.split(".")}
        elif isinstance(node, ast.ImportFrom):
            parts = (node.module or "").split(".")
            used |= {*parts, *(name.name for name in node.names)}
            used |= {f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.Name):
            used.add(node.id)
        elif isinstance(node, ast.keyword) and node.arg:
            used.add(node.arg)
        elif isinstance(node, ast.Attribute):
            whole = ast.unparse(node)
            # re.compile and model.eval() are not builtins.
            used |= {whole} | ({node.attr} - {"compile", "eval"})
    return used


def sources() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield str(path.relative_to(PACKAGE)), path.read_text()


def test_nothing_reads_pickles_or_evaluates_text() -> None:
    uses = {
        (path, name) for path, source in sources() for name in names_in(source) & FORBIDDEN
    }

    assert not uses


def test_only_a_few_modules_import_by_name() -> None:
    importers = {path for path, source in sources() if names_in(source) & IMPORTING}

    assert importers <= set(ALLOWED)


PLANTED = [
    "import pickle",
    "from pickle import loads",
    "import _pickle as p",
    "import torch\nx = torch.load('a')",
    "from torch import load",
    "import numpy as np\nnp.load('a', allow_pickle=True)",
    "import marshal",
    "import shelve",
    "import joblib",
    "import dill",
    "from yaml import safe_load",
    "eval('1')",
    "exec('1')",
    "compile('1', 'a', 'exec')",
    "__import__('os')",
    "import builtins\nbuiltins.exec('1')",
]


@pytest.mark.parametrize("source", PLANTED)
def test_a_planted_way_in_is_found(source: str) -> None:
    assert names_in(source) & FORBIDDEN


@pytest.mark.parametrize(
    "source",
    [
        "import importlib\nimportlib.import_module('a')",
        "from importlib import import_module as x",
        "from importlib.util import spec_from_file_location",
        "import runpy\nrunpy.run_path('a')",
    ],
)
def test_a_planted_import_by_name_is_found(source: str) -> None:
    assert names_in(source) & IMPORTING
