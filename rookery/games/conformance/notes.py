"""What is legal in a game but odd: names that nothing uses, maps that look indented.

Notes are found in the source of the user's classes and in what happened when the game was
played. They never fail a check, so each must be worth reading.
"""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from rookery.config.base import Settings
from rookery.errors import nearest
from rookery.games.base import Game
from rookery.games.conformance.causes import where_set
from rookery.games.conformance.rehearsal import Rehearsal
from rookery.games.gridworld import GridEngine, GridGame, GridSettings
from rookery.games.gridworld.declared import RESERVED
from rookery.games.guard import GuardedGame
from rookery.games.locate import is_users_class
from rookery.games.players import Player
from rookery.games.registry import Entry
from rookery.games.sources import Sources

PASSES = frozenset({"stay", "noop", "no_op", "wait", "nothing", "none", "pass", "rest"})
"""Names of actions that are meant to do nothing."""
SILENT = ("start", "before", "act", "after")
"""Methods of a grid game whose return value is ignored."""
INSTEAD = {
    "cell": "me.place(cells)",
    "turn": "a column of your own",
    "episode": "a column of your own",
    "ended": "me.end(where)",
    "done": "me.end(where)",
    "over": "world.end(where)",
    "closing": "world.end(where)",
    "back": "me.leave(turns, where)",
}
"""Columns that are the engine's, with what changes them properly."""
SYNONYMS = {
    "reset": "start",
    "setup": "declare",
    "init": "declare",
    "step": "act",
    "update": "before",
    "mask": "legal",
}
"""What methods are called elsewhere, with our names."""
OFTEN = 5
"""How often something must have happened before a note is made of it."""


def notes(game: GuardedGame, entry: Entry, rehearsal: Rehearsal) -> Iterator[str]:
    """Yield what is legal but odd about a user's game and its players."""
    if not rehearsal.is_users:
        return
    engine = game.game
    if isinstance(engine, GridEngine):
        yield from _map_notes(engine, rehearsal.sources)
        yield from _kind_notes(engine, rehearsal.sources)
        yield from _action_notes(engine, rehearsal.sources)
        yield from _source_notes(rehearsal.sources)
        yield from _order_notes(rehearsal.sources)
        yield from _column_notes(engine, rehearsal.sources, rehearsal.wrapped)
        yield from _play_notes(engine, rehearsal)
        base: type = GridGame
        rules: type = type(engine.rules)
    else:
        base, rules = Game, type(engine)
    yield from _name_notes(rules, base)
    yield from _unused_notes(game, rules, rehearsal)
    for player in entry.players.values():
        if inspect.isclass(player) and is_users_class(player):
            yield from _name_notes(player, Player)
    for where, text in rehearsal.warnings.items():
        yield (
            f"{where}: numpy warns: {text}; the result is nan or infinite, so treat "
            "that case apart, for example x / np.maximum(n, 1)."
        )
    if not rehearsal.rewards:
        yield (
            f"{rehearsal.sources.prefix('act')}no agent got a reward in {rehearsal.turns} "
            f"turns of random play in {rehearsal.game.worlds} worlds: check me.reward, or "
            "make rewards easier to find."
        )
    if rehearsal.changed and rehearsal.engine is not None:
        yield (
            f"{where_set(rehearsal.sources, rehearsal.changed)} changes during play: state "
            "on self is neither reset nor saved, so declare a column unless it is a cache."
        )


def _map_notes(engine: GridEngine, sources: Sources) -> Iterator[str]:
    chart = engine.layout.chart
    indent = min((len(row) - len(row.lstrip()) for row in chart if row.strip()), default=0)
    if indent:
        yield (
            f"{sources.prefix('map')}every row of the map begins with {indent} spaces, "
            "which are empty cells of the world: begin the rows at the left edge."
        )


def _kind_notes(engine: GridEngine, sources: Sources) -> Iterator[str]:
    from rookery.games.gridworld.tiles import NAMES  # loads Pillow

    by_char = defaultdict(list)
    for kind in engine.layout.things:
        by_char[kind.char].append(kind)
        if kind.tile != kind.name and kind.tile not in NAMES:
            yield (
                f"{kind.place}: the tile '{kind.tile}' of '{kind.name}' does not exist, so "
                f"a block is drawn: {nearest(kind.tile, NAMES)}"
            )
        is_drawn = any(kind.char in row for row in engine.layout.chart)
        if sources.words.get(kind.name, 0) < 2 and not is_drawn:
            yield (
                f"{kind.place}: '{kind.name}' is neither in the map nor in the rules, so "
                "no such thing ever appears: put it somewhere, or remove it."
            )
    for body in engine.layout.bodies:
        if body.tile not in NAMES:
            yield (
                f"{body.place}: the tile '{body.tile}' of '{body.name}' does not exist, so "
                f"a block is drawn: {nearest(body.tile, NAMES)}"
            )
    for char, kinds in by_char.items():
        names = [kind.name for kind in kinds]
        if len(kinds) > 1 and any(name[0] != char for name in names):
            yield (
                f"{kinds[-1].place}: {' and '.join(names)} have the same char '{char}': "
                "give them different ones, since maps and text views cannot tell them "
                "apart."
            )


def _action_notes(engine: GridEngine, sources: Sources) -> Iterator[str]:
    if "action" in sources.words:
        return  # the rules may use actions by number
    for body in engine.layout.bodies:
        names = [n for f in _factors(body.actions) for n in f]
        for name in names:
            is_used = sources.words.get(name, 0) > 1
            if name not in RESERVED and name not in PASSES and not is_used:
                yield (
                    f"{body.place}: the action '{name}' of '{body.name}' does nothing, "
                    f"since no rule asks for it: use me.does('{name}'), or remove it."
                )


def _factors(actions: Any) -> list[Any]:
    return [[a] if isinstance(a, str) else a for a in actions]


def _source_notes(sources: Sources) -> Iterator[str]:
    """Yield lines of a grid game that do not do what they seem to."""
    for source in sources.classes:
        for method in source.methods():
            for node in ast.walk(method):
                advice = _odd(node, method.name)
                if advice:
                    yield f"{source.place(node)}: {advice}"


def _order_notes(sources: Sources) -> Iterator[str]:
    """Yield things declared twice, and things that are cleared before they are read."""
    for source in sources.classes:
        for method in source.methods():
            seen: set[str] = set()
            for node in method.body if method.name == "declare" else ():
                targets = node.targets if isinstance(node, ast.Assign) else []
                for text in map(ast.unparse, targets):
                    if text in seen:
                        yield (
                            f"{source.place(node)}: {text} is assigned a second time, so "
                            "the first one is lost: give it a name of its own."
                        )
                    seen.add(text)
            calls = [n for n in ast.walk(method) if isinstance(n, ast.Call) and n.args]
            cleared = _first(calls, "clear", 0)
            for name, argument in (("value", 0), ("has", 1)):
                read = _first(calls, name, argument)
                for cells, line in cleared.items():
                    if read.get(cells, line).lineno > line.lineno:
                        yield (
                            f"{source.place(line)}: world.clear({cells}, …) comes before "
                            f"world.{name} reads {cells}, which is then empty: clear "
                            "afterwards."
                        )


def _first(calls: list[ast.Call], method: str, argument: int) -> dict[str, ast.Call]:
    """Return the first call of a method of the world for each of its arguments."""
    first: dict[str, ast.Call] = {}
    for call in sorted(calls, key=lambda call: call.lineno):
        is_method = isinstance(call.func, ast.Attribute) and call.func.attr == method
        if is_method and len(call.args) > argument:
            first.setdefault(ast.unparse(call.args[argument]), call)
    return first


def _column_notes(engine: GridEngine, sources: Sources, wrapped: set[str]) -> Iterator[str]:
    """Yield columns that wrap around, or are paid out every turn and never set back."""
    for name in engine.layout.columns:
        if name in wrapped:
            column = engine.layout.columns[name]
            yield (
                f"{column.place}: the column '{name}' wrapped around, since "
                f"{np.dtype(column.dtype)} holds no smaller or larger number: use np.int32 "
                "or np.float32."
            )
        changes = [
            (source, node)
            for source in sources.classes
            for node in ast.walk(source.node)
            if isinstance(node, ast.Assign | ast.AugAssign)
        ]
        writes = [n for _, n in changes if _writes(n, name)]
        grows = writes and all(
            isinstance(n, ast.AugAssign) and isinstance(n.op, ast.Add) for n in writes
        )
        for source, node in changes:
            is_paid = _writes(node, "reward") and _reads(node.value, name)
            if grows and is_paid:
                yield (
                    f"{source.place(node)}: the column '{name}' is paid out here, but only "
                    "ever grows, so it is paid again in every later turn: set it back to 0 "
                    "afterwards, or count it in `counts`."
                )


def _writes(node: ast.Assign | ast.AugAssign, name: str) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return any(_attribute(target) == name for target in targets)


def _reads(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Attribute) and n.attr == name for n in ast.walk(node))


def _odd(node: ast.AST, method: str) -> str:
    """Return what is odd about a statement; '' if nothing is."""
    if isinstance(node, ast.Assign):
        return next(filter(None, map(_odd_target, node.targets)), "")
    is_reward = isinstance(node, ast.AugAssign) and _attribute(node.target) == "reward"
    if is_reward and method in ("start", "declare"):
        return (
            f"a reward in {method}() is lost, since rewards are 0 when a turn begins: give "
            "it in before(), act() or after()."
        )
    if isinstance(node, ast.Return) and method in SILENT and _has_value(node):
        return (
            f"{method}() returns `{ast.unparse(node)[7:]}`, which nothing uses: add a "
            "reward to me.reward, and keep other values in columns."
        )
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Compare | ast.BinOp):
        return f"`{ast.unparse(node)}` has no effect: write =, += or another assignment."
    return ""


def _has_value(node: ast.Return) -> bool:
    is_none = isinstance(node.value, ast.Constant) and node.value.value is None
    return node.value is not None and not is_none


def _odd_target(target: ast.expr) -> str:
    text, name = ast.unparse(target), _attribute(target)
    if name == "reward":
        return (
            f"`{text} = …` erases what other agents and rules gave it in this turn: write "
            f"{text} += … to add to it."
        )
    if name in INSTEAD:
        return f"`{text} = …` changes what the engine keeps: use {INSTEAD[name]} instead."
    return ""


def _attribute(target: ast.expr) -> str:
    """Return the attribute of an agent or a world that is assigned; '' for others."""
    if not isinstance(target, ast.Attribute) or ast.unparse(target.value) == "self":
        return ""
    return target.attr


def _play_notes(engine: GridEngine, rehearsal: Rehearsal) -> Iterator[str]:
    actions = {n for b in engine.layout.bodies for f in _factors(b.actions) for n in f}
    if not rehearsal.moves and actions & set(RESERVED):
        yield (
            f"{rehearsal.sources.prefix('act')}no agent ever moved in {rehearsal.turns} "
            "turns: call me.move() in act, or check that the map leaves room."
        )
    if rehearsal.ends == rehearsal.episodes > OFTEN and engine.rules.settings.turns > 1:
        yield (
            f"{rehearsal.sources.prefix('act')}every episode ended after its first turn: "
            "check where world.end and me.end are called."
        )
    for name, record in rehearsal.things.items():
        kind = next(k for k in engine.layout.things if k.name == name)
        shares = [k.name for k in engine.layout.things if k.layer == kind.layer]
        if kind.solid and record.vanished and len(shares) > 1:
            yield (
                f"{kind.place}: the solid '{name}' disappears {record.vanished} times in "
                f"play: its layer '{kind.layer}' is shared with other kinds, so give it "
                "one of its own if it should stay."
            )
        is_paid = record.paid >= max(OFTEN, 0.9 * record.visits)
        is_special = rehearsal.paid_elsewhere < 0.5 * max(1, rehearsal.visits_elsewhere)
        if is_paid and is_special and not record.vanished:
            yield (
                f"{rehearsal.sources.prefix('act')}agents were rewarded {record.paid} "
                f"times where a '{name}' was, but none was ever taken away: if it should "
                f"count once, write world.clear(me.cell, layer='{kind.layer}')."
            )


def _name_notes(kind: type, base: type) -> Iterator[str]:
    """Yield methods and attributes that nothing uses, close to names that are called."""
    sources = Sources(kind)
    known = [name for name in dir(base) if not name.startswith("_")]
    library = {n for b in kind.__mro__ if not is_users_class(b) for n in vars(b)}
    for source in sources.classes:
        for name, member in vars(source.kind).items():
            if name.startswith("_") or name in library or sources.words.get(name, 0) > 1:
                continue
            if not inspect.isfunction(member) and inspect.isroutine(member):
                continue
            if inspect.isclass(member) and issubclass(member, Settings):
                advice = f": a game's settings are called Settings, not {name}."
            else:
                advice = f": {_meant(name, known)}"
            word = "method" if inspect.isfunction(member) else "attribute"
            # An assignment mentions the name itself, a definition does not.
            is_defined = inspect.isfunction(member) or isinstance(member, property)
            used = sources.words.get(name, 0) > (0 if is_defined else 1)
            if not used:
                yield (
                    f"{sources.prefix(name)}nothing uses the {word} '{name}' of "
                    f"{source.kind.__name__}{advice}"
                )


def _meant(name: str, known: list[str]) -> str:
    if SYNONYMS.get(name) in known:
        return f"did you mean '{SYNONYMS[name]}'?"
    return nearest(name, known)


def _unused_notes(game: GuardedGame, rules: type, rehearsal: Rehearsal) -> Iterator[str]:
    """Yield settings, counts and columns that no line uses."""
    base = GridSettings if issubclass(rules, GridGame) else Settings
    sources, words = rehearsal.sources, rehearsal.sources.words
    model: Any = rules.Settings  # type: ignore[attr-defined]
    special = {*base.model_fields, "height", "width"}
    is_indirect = bool({"getattr", "setattr", "model_dump", "vars"} & words.keys())
    for name in model.model_fields:
        if name not in special and words.get(name, 0) < 2 and not is_indirect:
            yield (
                f"{Sources(model).prefix(name)}nothing uses the setting '{name}': read it "
                f"as self.settings.{name}, or remove it."
            )
    for name in game.counts:
        is_used = words.get(name, 0) >= 2 or name in rehearsal.counted
        if not is_used and not is_indirect:
            yield (
                f"{sources.prefix('counts')}nothing adds to the count '{name}': write "
                f"me.{name} += …, or remove it."
            )
    if isinstance(game.game, GridEngine):
        for name, column in game.game.layout.columns.items():
            if words.get(name, 0) < 2:
                yield (
                    f"{column.place}: nothing uses the column '{name}': use it, or remove "
                    "it."
                )
