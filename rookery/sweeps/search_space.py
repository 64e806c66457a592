"""What a search varies, in the words of a sweep's axes.

algorithm=dqn,ppo               a choice
game.agents=2..8                a whole number; 2..8..2 has a step
discount=0.5..0.99              any number in between; 0.1..0.9..0.2 has a step
learning_rate=1e-5..1e-2..log   any number, each factor of ten as likely as any other

A number becomes the text of a setting, as on the command line, and is rounded: what is
tried is what the text says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

from rookery.config.messages import shown
from rookery.errors import ConfigError
from rookery.sweeps.axes import NUMBER, Axis, parse_axis

LOG = "log"
DIGITS, DIGITS_WITHIN = 6, 4
"""How many digits of a number count, and at least how many of its place in the range."""
_RANGE = re.compile(rf"({NUMBER})\.\.({NUMBER})(?:\.\.({NUMBER}|{LOG}))?")
_WORD = re.compile(
    rf"""((?:[^=:"']|"(?:[^"\\]|\\.)*"|'[^']*')+)=\s*({_RANGE.pattern})\s*""", re.DOTALL
)
_SAME_IN_ALL = ("rounds", "evaluate.every_rounds", "evaluate.turns")
"""What cannot be searched: trials are compared after the same rounds."""

Value = str | int | float


@dataclass(frozen=True)
class Range:
    """Numbers from low to high."""

    text: str
    low: Decimal
    high: Decimal
    step: Decimal | None
    """None if any number in between will do."""
    is_log: bool
    is_whole: bool

    @classmethod
    def parse(cls, text: str) -> Range:
        """Return the range that a text describes.

        Raises:
            ConfigError: if it is none.
        """
        match = _RANGE.fullmatch(text.strip())
        if match is None:
            raise ConfigError(
                f"{shown(text)} is not a range: write 1..8 for whole numbers, 0.0..1.0 "
                f"for any number, or 1e-5..1e-2..{LOG} for any number on a logarithmic "
                "scale."
            )
        low, high = Decimal(match[1]), Decimal(match[2])
        is_log = match[3] == LOG
        written = [match[1], match[2], *([match[3]] if match[3] and not is_log else [])]
        is_whole = all(re.fullmatch(r"[+-]?\d+", part) for part in written)
        step = Decimal(1) if is_whole else None
        if match[3] and not is_log:
            step = Decimal(match[3])
        if not low < high or (step is not None and step <= 0):
            raise ConfigError(
                f"{shown(text)} is not a range: write it from low to high, with a step "
                "above 0."
            )
        if is_log and low <= 0:
            raise ConfigError(
                f"{shown(text)} starts at {low}, and a logarithmic scale has no 0: start "
                "it above 0."
            )
        if step is not None:  # so that the last step is in the range
            high = low + (high - low) // step * step
        return cls(text.strip(), low, high, step, is_log, is_whole)

    @property
    def size(self) -> int | None:
        """How many numbers it has; None if any number in between will do."""
        return None if self.step is None else int((self.high - self.low) / self.step) + 1

    def text_of(self, number: float) -> str:
        """Return a number of the range as text, rounded."""
        if self.is_whole:
            return str(round(number))
        if self.step is not None:
            steps = round((Decimal(number) - self.low) / self.step)
            return repr(float(self.low + steps * self.step))
        low, high = float(self.low), float(self.high)
        digits = max(_decimals(number, DIGITS), _decimals(high - low, DIGITS_WITHIN))
        return repr(min(max(round(number, digits), low), high))

    def number_of(self, text: str) -> int | float:
        """Return the number that a text says."""
        return int(text) if self.is_whole else float(text)


def _decimals(number: float, digits: int) -> int:
    """Return how many decimals a number has if some of its digits count."""
    return digits - 1 - math.floor(math.log10(abs(number))) if number else digits


@dataclass(frozen=True)
class Dimension:
    """One setting that a search varies, or several that vary together."""

    keys: tuple[str, ...]
    choices: tuple[tuple[str, ...], ...] = ()
    """For each choice a value of every key, as on the command line; none for a range."""
    range_text: str = ""
    """The range, as it was written; '' for choices."""

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Dimension:
        """Return what `to_json` has described."""
        choices = tuple(tuple(map(str, values)) for values in content.get("choices", ()))
        result = cls(tuple(map(str, content["keys"])), choices, content.get("range", ""))
        if not result.keys or result.size == 0:
            raise ValueError("it has no values")
        return result

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        varied: dict[str, Any] = {"choices": [list(values) for values in self.choices]}
        if self.range_text:
            varied = {"range": self.range_text}
        return {"keys": list(self.keys), **varied}

    @cached_property
    def range(self) -> Range | None:
        """The numbers; None for choices."""
        return Range.parse(self.range_text) if self.range_text else None

    @property
    def name(self) -> str:
        """What it is called: its keys."""
        return ":".join(self.keys)

    @property
    def size(self) -> int | None:
        """How many values it has; None if any number of a range will do."""
        return len(self.choices) if self.range is None else self.range.size

    @property
    def labels(self) -> list[str]:
        """The names of the choices."""
        return [":".join(values) for values in self.choices]

    def examples(self) -> list[tuple[str, ...]]:
        """Return the values that are checked before a search: choices, or both ends.

        The first of them is the one that most probably takes most memory and time.
        """
        if self.range is None:
            return list(self.choices)
        return [(self.range.text_of(float(x)),) for x in (self.range.high, self.range.low)]

    def settings_of(self, value: Value) -> dict[str, str]:
        """Return the settings, by key, of a number or of the name of a choice."""
        if self.range is not None:
            return {self.keys[0]: self.range.text_of(float(value))}
        return dict(
            zip(self.keys, self.choices[self.labels.index(str(value))], strict=True)
        )

    def value_of(self, settings: Mapping[str, str]) -> Value:
        """Return the number, or the name of the choice, that settings contain."""
        if self.range is not None:
            return self.range.number_of(settings[self.keys[0]])
        return ":".join(settings[key] for key in self.keys)

    def value_at(self, index: int) -> Value:
        """Return one of its values, if it has a number of them."""
        if self.range is None:
            return self.labels[index]
        assert self.range.step is not None
        return float(self.range.low + index * self.range.step)


def parse_dimension(word: str) -> Dimension | Axis:
    """Return what one word of a command line varies.

    Returns:
        An axis with a single value if the word varies nothing.

    Raises:
        ConfigError: if it cannot be read.
    """
    if match := _WORD.fullmatch(word):
        return range_of(match[1].strip(), match[2])
    return choices_of(parse_axis(word))


def range_of(key: str, text: str) -> Dimension:
    """Return the dimension of one setting that has a range."""
    parsed = Range.parse(text)
    return _checked(Dimension((key,), range_text=parsed.text))


def choices_of(axis: Axis) -> Dimension | Axis:
    """Return the dimension that chooses from the values of an axis, if it has several."""
    if len(axis.values) == 1:
        return axis
    return _checked(Dimension(axis.keys, axis.values))


def _checked(dimension: Dimension) -> Dimension:
    for key in dimension.keys:
        if key in _SAME_IN_ALL:
            raise ConfigError(
                f"{key} cannot be searched, because trials are compared after the same "
                "rounds: give it one value."
            )
    return dimension


def size_of(space: Sequence[Dimension]) -> int | None:
    """Return how many combinations a space has; None if there is no end of them."""
    sizes = [dimension.size for dimension in space]
    return None if None in sizes else math.prod(size for size in sizes if size is not None)


def combination_at(space: Sequence[Dimension], index: int) -> dict[str, str]:
    """Return one of the combinations of a space that has a number of them."""
    settings: dict[str, str] = {}
    for dimension in space:
        index, place = divmod(index, dimension.size or 1)
        settings |= dimension.settings_of(dimension.value_at(place))
    return settings
