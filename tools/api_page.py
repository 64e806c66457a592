"""docs/api.md: every public name, from signatures and docstrings.

Published are all names of `rookery.__all__`, and those in `EXTENSION` that users subclass,
import or are given. Methods, properties and attributes are listed with their class; what
begins with an underscore, or is in `ENGINE`, is not.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import import_module
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import rookery
from rookery.config.base import Settings

INTRODUCTION = """\
# API reference

Every public name, generated from the code (`make docs`). Names in the first three sections
are those of `import rookery`; for the others, the module to import them from is given.
`Array` is a numpy array; (worlds, 4) is its shape.

Settings are on [a page of their own](settings.md), tiles [on another](tiles.md).

"""


class Chapter(NamedTuple):
    """A section of the page."""

    title: str
    introduction: str
    module: str
    names: tuple[str, ...] = ()
    """By default the module's __all__."""


EXTENSION = (
    Chapter(
        "Grid games",
        "To write a game, subclass `GridGame`; [Your first game](your-first-game.md) "
        "shows how. In rules, `me` is one agent (`Me`) and `world` is all worlds "
        "(`World`): every value is an array with one entry per world.\n\n"
        "```py\n"
        "me.number                       # which agent this is: 0, 1, …\n"
        "other = world.agents[1 - me.number]\n"
        "stolen = world.has(self.red, me.cell) & (me.number == 1)\n"
        "me.reward += 1.0 * stolen\n"
        "other.reward -= 2.0 * stolen    # hurts the other agent\n"
        "world.end(where=world.count(self.red) == 0)\n"
        "```",
        "rookery.games.gridworld",
    ),
    Chapter(
        "Players",
        "Scripted players act for agents that do not learn.",
        "rookery.games.players",
        ("Player", "Observation", "RandomPlayer", "random_actions", "pick"),
    ),
    Chapter(
        "Players of grid games",
        "A base class for players that walk by what they see.",
        "rookery.games.gridworld.walker",
        ("Walker",),
    ),
    Chapter(
        "Games without a grid",
        "Anything else that can be written in numpy.",
        "rookery.games.base",
        ("Game", "Observations", "Outcome", "GameWrapper"),
    ),
    Chapter(
        "Specs",
        "What agents observe and can do.",
        "rookery.specs",
        ("AgentSpec", "Part"),
    ),
    Chapter(
        "Your own network or algorithm",
        "Both are plain classes without a base class: "
        "[Your own algorithm](your-own-algorithm.md) lists their methods.\n\n"
        "```py\n"
        "class Net(torch.nn.Module):  # algorithm=./net.py:Net\n"
        "    def __init__(self, spec, settings):  # AgentSpec, and the agent's settings\n"
        "        super().__init__()\n"
        "        self.layer = torch.nn.LazyLinear(spec.num_actions)\n\n"
        "    def forward(self, inputs):  # part name to (batch, frames, *shape), float32\n"
        "        flat = [part.flatten(1) for part in inputs.values()]\n"
        "        return self.layer(torch.cat(flat, dim=1))  # (batch, actions)\n"
        "```\n\n"
        "A class that learns by itself has `values` or `probabilities`, `update`, `state` "
        "and `load`; `update` gets a batch of transitions.",
        "rookery.replay.buffer",
        ("Batch",),
    ),
    Chapter(
        "Probes",
        "A probe is a function of `(players, game)` that returns numbers by name, named "
        "with `probe.code=./mine.py:greed` ([Studies](studies.md)). `players` are the "
        "trained agents by id.\n\n"
        "```py\n"
        "def greed(players, game):\n"
        "    match = game.play(players, episodes=8, record=True)\n"
        '    return {"zaps": (match.table()["action_name"] == "zap").mean()}\n'
        "```",
        "rookery.evaluation.probes",
        ("ProbeGame",),
    ),
    Chapter(
        "Rounds",
        "What a callback of `rookery.train` is given after each round.",
        "rookery.training.training",
        ("Round",),
    ),
    Chapter("Episodes", "In `Match.episodes`.", "rookery.games.episodes", ("Episode",)),
    Chapter(
        "Lists of runs",
        "What `rookery.list_runs` returns.",
        "rookery.runs.listing",
        ("RunInfo",),
    ),
    Chapter(
        "Comparisons of runs",
        "What `rookery.diff` returns.",
        "rookery.api.runs",
        ("Differences",),
    ),
    Chapter(
        "Lists of settings",
        "What `rookery.settings` returns, and contains.",
        "rookery.api.settings",
        ("SettingsList", "Section"),
    ),
)

ENGINE = {
    "World": {
        *("closing", "done", "columns", "per_agent", "per_world", "base", "layout"),
        *("back", "facing", "ended", "over", "layers", "blank", "random", "wait"),
        *("loop_arrays", "flat_cells", "check_cells", "flat_layer", "declared_kind"),
        "bind",
    },
    "Me": {"choose", "bind", "ended", "back"},
    "Kind": {"id"},
    "Body": {"kind"},
    "Episode": {"to_json", "from_json"},
    "Batch": {"part"},
    "TrainedAgent": {"weights"},
    "Run": {"exploration"},
}
"""Attributes and methods that only the engine uses."""
ONLY = {"GridEngine": {"show"}}
"""Classes of which users need only some methods."""


def write_api() -> str:
    """Return the page."""
    public = [getattr(rookery, name) for name in rookery.__all__]
    errors = [x for x in public if inspect.isclass(x) and issubclass(x, Exception)]
    classes = [x for x in public if inspect.isclass(x) and x not in errors]
    functions = [x for x in public if not inspect.isclass(x)]
    chapters = [
        ("Functions", "", functions, "rookery."),
        ("Classes", "", classes, "rookery."),
        ("Errors", "What Rookery raises on purpose.", errors, "rookery."),
    ]
    for chapter in EXTENSION:
        where = f"From `{chapter.module}`."
        introduction = f"{where} {chapter.introduction}"
        chapters.append((chapter.title, introduction, published(chapter), ""))
    parts = [INTRODUCTION, *_contents([title for title, *_ in chapters])]
    for title, introduction, members, prefix in chapters:
        parts.append(f"## {title}\n")
        if introduction:
            parts.append(f"{introduction}\n")
        parts += [_describe(member, prefix) for member in members]
    return "\n".join(parts).rstrip() + "\n"


def _contents(titles: list[str]) -> list[str]:
    lines = [f"- [{title}](#{title.lower().replace(' ', '-')})" for title in titles]
    return ["\n".join(lines) + "\n"]


def published(chapter: Chapter) -> list[Any]:
    """Return the objects of a chapter."""
    module = import_module(chapter.module)
    names = chapter.names or tuple(module.__all__)
    return [_named(module, name) for name in names]


class Constant(NamedTuple):
    """A public value that is neither a class nor a function."""

    name: str
    value: Any
    text: str


def _named(module: Any, name: str) -> Any:
    value = getattr(module, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        return value
    sources = [module, *(import_module(m) for m in _imported_from(module, name))]
    for source in sources:
        docs = _attribute_docs(ast.parse(inspect.getsource(source)).body)
        if name in docs:
            return Constant(name, value, docs[name])
    return Constant(name, value, "")


def _imported_from(module: Any, name: str) -> Iterator[str]:
    for node in ast.parse(inspect.getsource(module)).body:
        if isinstance(node, ast.ImportFrom) and name in [a.name for a in node.names]:
            yield str(node.module)


class Member(NamedTuple):
    """A method, property or attribute of a published class."""

    name: str
    heading: str
    text: str
    is_callable: bool


def _describe(item: Any, prefix: str) -> str:
    if isinstance(item, Constant):
        return f"### {item.name}\n\n`{item.value!r}`\n\n{item.text}\n"
    lines = [f"### {prefix}{item.__name__}\n", _signature(item), ""]
    lines.append(to_markdown(own_doc(item)))
    if inspect.isclass(item):
        attributes = [m for m in members_of(item) if not m.is_callable]
        methods = [m for m in members_of(item) if m.is_callable]
        lines += [_attribute_line(member) for member in attributes]
        lines += [""] if attributes else []
        for member in methods:
            lines += [f"#### {item.__name__}.{member.name}\n", member.heading, ""]
            lines.append(to_markdown(member.text))
    return "\n".join(lines)


def _attribute_line(member: Member) -> str:
    text = _one_line(member.text)
    return f"- **`{member.heading}`** {text}".rstrip()


def own_doc(item: Any) -> str:
    """Return the docstring that is written at a class or function."""
    text = inspect.cleandoc(item.__doc__ or "")
    if inspect.isclass(item) and "__init__" in vars(item):
        arguments = inspect.cleandoc(vars(item)["__init__"].__doc__ or "")
        _, found, rest = arguments.partition("Args:")
        if found and "Args:" not in text:
            text += f"\n\nArgs:{rest}"
    if dataclasses.is_dataclass(item) and text.startswith(f"{item.__name__}("):
        return ""  # made by dataclass, not written by anybody
    return text


def members_of(cls: type) -> list[Member]:
    """Return the public members of a class: attributes first, then methods."""
    hidden = ENGINE.get(cls.__name__, set())
    members: dict[str, Member] = {}
    for owner in reversed(cls.__mro__):
        if not owner.__module__.startswith("rookery") or owner is Settings:
            continue
        for member in _own_members(owner, cls):
            if member.name.startswith("_") or member.name in hidden:
                continue
            if member.name not in ONLY.get(cls.__name__, {member.name}):
                continue
            old = members.get(member.name)
            if old and not member.text:  # an override is described by what it overrides
                member = member._replace(text=old.text)
            members[member.name] = member
    return list(members.values())


def _own_members(owner: type, cls: type) -> Iterator[Member]:
    if issubclass(owner, Exception):
        return
    source = _ClassSource(owner)
    fields = getattr(owner, "model_fields", {}) if issubclass(owner, Settings) else {}
    for name, annotation in source.annotations.items():
        text = source.docs.get(name, "")
        if name in fields:
            text = fields[name].description or ""
        yield Member(name, f"{name}: {annotation}", text, False)
    for name, text in source.set_in_init.items():
        yield Member(name, name, text, False)
    for name, value in vars(owner).items():
        if isinstance(value, property | cached_property):
            function: Any = value.fget if isinstance(value, property) else value.func
            returns = function.__annotations__.get("return", "Any")
            text = inspect.cleandoc(function.__doc__ or "").partition("\n\n")[0]
            yield Member(name, f"{name}: {returns}", text, False)
        elif inspect.isfunction(value) or isinstance(value, classmethod | staticmethod):
            function = getattr(value, "__func__", value)
            heading = _signature(function, name, skip_first=not _is_static(value))
            yield Member(name, heading, inspect.cleandoc(function.__doc__ or ""), True)


def _is_static(value: Any) -> bool:
    return isinstance(value, staticmethod)


class _ClassSource:
    """What only the source of a class says: docstrings of attributes."""

    def __init__(self, cls: type) -> None:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
        assert isinstance(tree, ast.ClassDef)
        self.annotations = {
            node.target.id: _shown_type(ast.unparse(node.annotation))
            for node in tree.body
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
        }
        self.docs = _attribute_docs(tree.body)
        built = [
            node
            for node in tree.body
            if isinstance(node, ast.FunctionDef)
            and node.name in ("__init__", "__post_init__")
        ]
        self.set_in_init = _attribute_docs(built[0].body) if built else {}


def _shown_type(text: str) -> str:
    inner = re.fullmatch(r"ClassVar\[(.*)\]", text)
    return inner[1] if inner else text


def _attribute_docs(body: list[ast.stmt]) -> dict[str, str]:
    """Return the texts that follow assignments, by name; of `self.name`, too."""
    docs = {}
    for node, after in pairwise(body):
        if not (isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else []
        targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
        for target in targets:
            for name in target.elts if isinstance(target, ast.Tuple) else [target]:
                key = getattr(name, "id", getattr(name, "attr", ""))
                docs[key] = inspect.cleandoc(str(after.value.value))
    return docs


def _signature(item: Callable[..., Any], name: str = "", skip_first: bool = False) -> str:
    """Return a signature as a block of code, with one line per argument if it is long."""
    name = name or item.__name__
    if inspect.isclass(item) and issubclass(item, Exception):
        return f"```text\n{name}({item.__mro__[1].__name__})\n```"
    signature = inspect.signature(item)
    if inspect.isclass(item):
        signature = signature.replace(return_annotation=inspect.Signature.empty)
    parameters = list(signature.parameters.values())[1 if skip_first else 0 :]
    texts = [_parameter(parameter) for parameter in parameters]
    texts = _with_markers(parameters, texts)
    returns = signature.return_annotation
    end = "" if returns is inspect.Signature.empty else f" -> {_type_text(returns)}"
    line = f"{name}({', '.join(texts)}){end}"
    if len(line) > 88:
        line = f"{name}(\n" + "".join(f"    {text},\n" for text in texts) + f"){end}"
    return f"```text\n{line}\n```"


def _type_text(annotation: Any) -> str:
    if isinstance(annotation, str):
        return annotation.strip("'\"")
    return getattr(annotation, "__name__", str(annotation))


def _parameter(parameter: inspect.Parameter) -> str:
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}
    text = stars.get(parameter.kind, "") + parameter.name
    if parameter.annotation is not parameter.empty:
        text += f": {_type_text(parameter.annotation)}"
    if parameter.default is not parameter.empty:
        default = repr(parameter.default)
        text += f" = {'…' if default.startswith('<') or len(default) > 60 else default}"
    return text


def _with_markers(parameters: list[inspect.Parameter], texts: list[str]) -> list[str]:
    """Return the arguments with `/` and `*` where they belong."""
    result, has_star = [], False
    for i, (parameter, text) in enumerate(zip(parameters, texts, strict=True)):
        has_star |= parameter.kind is parameter.VAR_POSITIONAL
        if parameter.kind is parameter.KEYWORD_ONLY and not has_star:
            has_star = True
            result.append("*")
        result.append(text)
        after = parameters[i + 1 : i + 2]
        is_last = not after or after[0].kind is not parameter.POSITIONAL_ONLY
        if parameter.kind is parameter.POSITIONAL_ONLY and is_last:
            result.append("/")
    return result


SECTIONS = ("Args:", "Returns:", "Raises:")


def to_markdown(text: str) -> str:
    """Return a docstring as Markdown: arguments as a list, indented code as a block."""
    lines: list[str] = []
    paragraphs = re.split(r"\n\n", text)
    for is_code, group in groupby(paragraphs, lambda part: part.startswith("    ")):
        if is_code:
            code = textwrap.dedent("\n\n".join(group))
            lines += [f"```py\n{code}\n```", ""]
            continue
        for paragraph in group:
            first, _, rest = paragraph.partition("\n")
            if first in SECTIONS:
                lines += [_section(first, textwrap.dedent(rest)), ""]
            else:
                lines += [_one_line(paragraph), ""]
    return "\n".join(lines)


def _one_line(text: str) -> str:
    """Return text on one line; *shape is not the beginning of emphasis."""
    return " ".join(text.split()).replace(" *shape", r" \*shape")


def _section(title: str, body: str) -> str:
    if title == "Returns:":
        return f"Returns: {' '.join(body.split())}"
    items = re.split(r"\n(?=\S)", body)
    shown = []
    for item in items:
        name, colon, text = item.partition(":")
        words = _one_line(text)
        before = "raises " if title == "Raises:" else ""
        shown.append(f"- {before}`{name}`: {words}" if colon else f"- {item}")
    return "\n".join(shown)


def undocumented() -> list[str]:
    """Return the published classes, functions, methods and properties without a text.

    Attributes of what users write games with must have one, too.
    """
    missing = []
    chapters = [(published(chapter), chapter.module) for chapter in EXTENSION]
    chapters.append(([getattr(rookery, name) for name in rookery.__all__], "rookery"))
    for members, module in chapters:
        for item in members:
            if isinstance(item, Constant):
                missing += [] if item.text else [f"{module}.{item.name}"]
                continue
            missing += [] if own_doc(item) else [f"{module}.{item.__name__}"]
            if inspect.isclass(item):
                missing += [
                    f"{module}.{item.__name__}.{member.name}"
                    for member in members_of(item)
                    if not member.text and (member.is_callable or _is_strict(module))
                ]
    return missing


def _is_strict(module: str) -> bool:
    return module.startswith(("rookery.games", "rookery.specs"))
