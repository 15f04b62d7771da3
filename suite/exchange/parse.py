"""Reading the name of an exchange, such as `powersgd(rank=4)`, without evaluating anything."""

import re
from dataclasses import dataclass, field

Value = int | float | bool | str
DEEPEST = 4
"""Names within names that are read: an exchange across racks, and one to spare."""

_SPEC = re.compile(r"(?P<name>[A-Za-z_][\w.:-]*)\s*(?:\((?P<arguments>.*)\))?", re.DOTALL)
_ARGUMENT = re.compile(
    r"(?P<key>[A-Za-z_]\w*)\s*=\s*(?P<value>[\w.:+-]+|(?P<nested>[A-Za-z_][\w.:-]*\s*\(.*\)))", re.DOTALL
)


@dataclass(frozen=True)
class ExchangeSpec:
    """The registered name of an exchange and its keyword arguments."""

    name: str
    arguments: dict[str, Value] = field(default_factory=dict)


def parse(text: str) -> ExchangeSpec:
    """`name` or `name(key=value, ...)`; a value is an integer, a float, true, false, a word, or a name of this form.

    A nested name stays text, such as `topk(ratio=0.01)` in `hierarchical(cross=topk(ratio=0.01))`, but must be right.
    Raises ValueError, naming the part that is wrong.
    """
    match = _SPEC.fullmatch(text.strip()) if text.count("(") <= DEEPEST else None
    if match is None:
        raise ValueError(f"exchange {text!r} is not of the form name or name(key=value, ...)")
    arguments: dict[str, Value] = {}
    for part in split_outside(match["arguments"] or ""):
        if not part.strip():
            continue
        argument = _ARGUMENT.fullmatch(part.strip())
        if argument is None:
            raise ValueError(f"exchange {text!r}: argument {part.strip()!r} is not of the form key=value")
        if argument["key"] in arguments:
            raise ValueError(f"exchange {text!r}: argument {argument['key']!r} is given twice")
        nested = argument["nested"]
        if nested:
            parse(nested)
        arguments[argument["key"]] = nested or _value(argument["value"])
    return ExchangeSpec(match["name"], arguments)


def split_outside(text: str) -> list[str]:
    """Parts of `text` between those of its commas that stand in no parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _value(word: str) -> Value:
    if word in ("true", "false"):
        return word == "true"
    for number in (int, float):
        try:
            return number(word)
        except ValueError:
            continue
    return word
