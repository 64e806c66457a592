"""The names that `import rookery` offers."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import rookery


def test_every_public_name_can_be_loaded() -> None:
    for name in rookery.__all__:
        # A package such as `rookery.games` is called like a function.
        assert getattr(rookery, name).__name__.removeprefix("rookery.") == name
    assert set(rookery.__all__) <= set(dir(rookery))


def test_type_checkers_find_the_names_in_the_same_modules() -> None:
    tree = ast.parse(Path(rookery.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    imported = {
        alias.asname: (node.module or "").removeprefix("rookery.")
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert imported == rookery._HOMES


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'rookery' has no attribute 'evaluat'"):
        rookery.evaluat  # noqa: B018


def test_neither_importing_rookery_nor_its_help_loads_torch_or_numpy() -> None:
    code = (
        "import sys, rookery\n"
        "from rookery.cli.app import app\n"
        "app(['--help'], standalone_mode=False)\n"
        "print([name for name in ('torch', 'numpy', 'pydantic') if name in sys.modules])\n"
    )
    command = [sys.executable, "-c", code]

    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)

    assert ended.stdout.splitlines()[-1] == "[]"
