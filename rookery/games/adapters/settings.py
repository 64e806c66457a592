"""A foreign game's keyword arguments as settings.

They are read from the signature of the function that makes the game, so that a wrong
key or type is found before the game is made, and `describe` can list what there is.
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from copy import copy
from types import MappingProxyType, ModuleType, NoneType
from typing import Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, create_model
from pydantic.errors import PydanticUserError

from rookery.config.base import Settings

PLAIN = (bool, int, float, str, list, tuple, dict, NoneType)
RENDER_MODE = "render_mode"
"""Chosen by Rookery, and no setting."""


class Keywords(Settings):
    """The keyword arguments of a foreign game, and how it is used."""

    model_config = ConfigDict(protected_namespaces=())

    reward: Literal["own", "sum"] = Field(
        default="own",
        description="What an agent is trained on: its own reward, or the sum of all "
        "agents' rewards. What is reported as return is its own in either case.",
    )
    shrink: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Pictures are made smaller: each square of so many pixels a side "
        "becomes one, their mean.",
    )
    rebuild_each_episode: bool = Field(
        default=False,
        description="Make each world's game anew for every episode. Episodes start "
        "slower; needed where a game's own reset leaves something of the last episode "
        "behind, which `rookery check` finds.",
    )

    def arguments(self) -> dict[str, Any]:
        """Return what to call the game's function with.

        That is only what was set: a default of the game's is the game's business.
        """
        own = set(type(self).__mro__[1].model_fields)  # type: ignore[attr-defined]
        return self.model_dump(exclude_unset=True, exclude=own)


def rebuilt(base: type[Keywords]) -> type[Keywords]:
    """Return the same settings, for a game that is known to need being made anew."""
    field = copy(base.model_fields["rebuild_each_episode"])
    field.default = True
    return create_model("Rebuilt", __base__=base, rebuild_each_episode=(bool, field))


def signature_source(factory: Callable[..., Any], module: ModuleType) -> Any:
    """Return what to read the keyword arguments from.

    PettingZoo's factories pass **kwargs on to their module's `raw_env`.
    """
    return getattr(module, "raw_env", factory) if takes_any(factory) else factory


def takes_any(source: Callable[..., Any]) -> bool:
    """Whether `source` has **kwargs, so that its keys cannot be known."""
    parameters = inspect.signature(source).parameters.values()
    return any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters)


def takes_render_mode(source: Callable[..., Any]) -> bool:
    """Whether a game may be asked to draw."""
    return takes_any(source) or RENDER_MODE in inspect.signature(source).parameters


def keyword_settings(
    source: Callable[..., Any],
    name: str,
    base: type[Keywords] = Keywords,
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> type[Keywords]:
    """Return settings with one field per keyword argument of `source`.

    Args:
        source: the function that makes the game.
        name: of the game, for texts.
        base: settings of Rookery's own; a keyword argument of the same name is left out.
        defaults: what the game is registered with, in place of its own defaults.
    """
    texts = _descriptions(source)
    fields: dict[str, Any] = {}
    for parameter in _keywords(source, defaults):
        if parameter.name in base.model_fields:
            continue
        text = texts.get(parameter.name, f"Keyword argument of {name}.")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (_type_of(parameter), Field(default, description=text))
    if takes_any(source):
        base = type("AnyKeywords", (base,), {"model_config": ConfigDict(extra="allow")})
    with warnings.catch_warnings():
        # An argument may be called 'copy' or 'json' like a method of the model.
        warnings.filterwarnings("ignore", "Field name .* shadows an attribute")
        text = f"The keyword arguments of {name}."
        return create_model("KeywordSettings", __base__=base, __doc__=text, **fields)


def _keywords(
    source: Callable[..., Any], defaults: Mapping[str, Any]
) -> list[inspect.Parameter]:
    """Return the parameters a user may set: named, and with a plain default."""
    try:
        signature = inspect.signature(source, eval_str=True)
    except Exception:  # an annotation that only type checkers can resolve
        signature = inspect.signature(source)
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = [
        parameter.replace(default=defaults.get(parameter.name, parameter.default))
        for parameter in signature.parameters.values()
        if parameter.kind in named
    ]
    return [
        parameter
        for parameter in parameters
        if parameter.name != RENDER_MODE
        and not parameter.name.startswith("_")
        and (parameter.default is parameter.empty or type(parameter.default) in PLAIN)
    ]


def _type_of(parameter: inspect.Parameter) -> Any:
    if isinstance(parameter.annotation, str):
        return Any
    if parameter.annotation is not parameter.empty:
        try:
            TypeAdapter(parameter.annotation)
        except (PydanticUserError, NameError, TypeError):
            return Any
        return parameter.annotation
    kind = type(parameter.default)
    if kind is int:  # `reward=1` without annotation may well take 0.5
        return int | float
    return kind if kind in PLAIN and kind is not NoneType else Any


def _descriptions(source: Callable[..., Any]) -> dict[str, str]:
    """Return the texts of keyword arguments; PettingZoo writes them as `name`: text."""
    module = sys.modules.get(getattr(source, "__module__", ""))
    text = "\n".join(filter(None, [inspect.getdoc(module), inspect.getdoc(source)]))
    found = re.findall(r"^`(\w+)`:\s+(.+?)(?=\n\s*\n|\n`|\Z)", text, re.M | re.S)
    return {name: " ".join(words.split()) for name, words in found}
