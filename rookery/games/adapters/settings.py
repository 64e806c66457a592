"""The keyword arguments of a foreign game as settings.

They are read from the signature of the function that makes the game, so that a wrong key
or type is reported before the game is made, and `rookery describe` can list them.
"""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable, Mapping
from copy import copy
from types import MappingProxyType, ModuleType, NoneType
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, TypeAdapter, create_model
from pydantic.errors import PydanticUserError

from rookery.config.base import Settings

PLAIN = (bool, int, float, str, list, tuple, dict, NoneType)
RENDER_MODE = "render_mode"
"""Set by Rookery, and not a setting."""


def _split(names: Any) -> Any:
    """Return the names in a text such as 'mission,direction', or in a list."""
    if isinstance(names, str):
        names = names.split(",")
    elif isinstance(names, int):  # a part of a Tuple, which is named by its number
        names = [names]
    if not isinstance(names, list | tuple):
        return names
    is_number = [isinstance(name, int) and not isinstance(name, bool) for name in names]
    return [
        str(name) if number else name.strip() if isinstance(name, str) else name
        for name, number in zip(names, is_number, strict=True)
    ]


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""Names of parts."""


class ForeignSettings(Settings):
    """The settings of every foreign game; subclasses add its keyword arguments."""

    model_config = ConfigDict(protected_namespaces=())

    reward: Literal["own", "sum"] = Field(
        default="own",
        description="The reward an agent is trained on: its own, or the sum over all "
        "agents. The reported return is always that of its own rewards.",
    )
    shrink: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Downscales images by this factor: each square of pixels is replaced "
        "by its mean.",
    )
    without: Names = Field(
        default=(),
        description="Parts of the observation to leave out, such as a text that cannot be "
        "stored.",
    )
    codes: Names = Field(
        default=(),
        description="Parts that look like pictures, bytes of (height, width, 1, 3 or 4), "
        "but hold codes rather than colours: networks get them as they are, and not "
        "divided by 255.",
    )
    rebuild_each_episode: bool = Field(
        default=False,
        description="Rebuild each world's game for every episode. Episodes start more "
        "slowly; needed if the game's own reset leaves something of the last episode "
        "behind, which `rookery check` detects.",
    )

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments that were set; the game has its own defaults."""
        own = set(type(self).__mro__[1].model_fields)  # type: ignore[attr-defined]
        return self.model_dump(exclude_unset=True, exclude=own)


def with_rebuilding(base: type[ForeignSettings]) -> type[ForeignSettings]:
    """Return the same settings, with `rebuild_each_episode` on by default."""
    field = copy(base.model_fields["rebuild_each_episode"])
    field.default = True
    return create_model("Rebuilt", __base__=base, rebuild_each_episode=(bool, field))


def signature_source(factory: Callable[..., Any], module: ModuleType) -> Any:
    """Return the function whose signature has the keyword arguments.

    PettingZoo's factories pass **kwargs on to their module's `raw_env`.
    """
    return getattr(module, "raw_env", factory) if has_var_keyword(factory) else factory


def has_var_keyword(source: Callable[..., Any]) -> bool:
    """Whether `source` has **kwargs, so that any key may be valid."""
    parameters = inspect.signature(source).parameters.values()
    return any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters)


def takes_render_mode(source: Callable[..., Any]) -> bool:
    """Whether a game can be made with `render_mode`."""
    return has_var_keyword(source) or RENDER_MODE in inspect.signature(source).parameters


def pass_on_render_mode(source: Callable[..., Any]) -> str:
    """Return what to change in a function or class that does not take `render_mode`."""
    name = getattr(source, "__name__", type(source).__name__)
    return f"let {name} take {RENDER_MODE} and pass it on"


def settings_from_signature(
    source: Callable[..., Any],
    name: str,
    base: type[ForeignSettings] = ForeignSettings,
    defaults: Mapping[str, Any] = MappingProxyType({}),
) -> type[ForeignSettings]:
    """Return settings with one field per keyword argument of `source`.

    Args:
        source: the function that makes the game.
        name: the game's, for descriptions.
        base: Rookery's own settings, which hide keyword arguments of the same name.
        defaults: arguments the game is registered with, which override its defaults.
    """
    texts = _descriptions(source)
    fields: dict[str, Any] = {}
    for parameter in _keywords(source, defaults):
        if parameter.name in base.model_fields:
            continue
        text = texts.get(parameter.name, f"Keyword argument of {name}.")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (_type_of(parameter), Field(default, description=text))
    if has_var_keyword(source):
        base = type("AnyKeywords", (base,), {"model_config": ConfigDict(extra="allow")})
    with warnings.catch_warnings():
        # An argument may be called 'copy' or 'json' like a method of the model.
        warnings.filterwarnings("ignore", "Field name .* shadows an attribute")
        text = f"The keyword arguments of {name}."
        return create_model("KeywordSettings", __base__=base, __doc__=text, **fields)


def _keywords(
    source: Callable[..., Any], defaults: Mapping[str, Any]
) -> list[inspect.Parameter]:
    """Return the parameters a user can set: named, and with a plain default."""
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
    if kind is int:  # `reward=1` without an annotation may also accept 0.5
        return int | float
    return kind if kind in PLAIN and kind is not NoneType else Any


def _descriptions(source: Callable[..., Any]) -> dict[str, str]:
    """Return descriptions of keyword arguments; PettingZoo writes them as `name`: text."""
    module = sys.modules.get(getattr(source, "__module__", ""))
    text = "\n".join(filter(None, [inspect.getdoc(module), inspect.getdoc(source)]))
    pairs = re.findall(r"^`(\w+)`:\s+(.+?)(?=\n\s*\n|\n`|\Z)", text, re.M | re.S)
    return {name: " ".join(text.split()) for name, text in pairs}
