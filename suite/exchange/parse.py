"""Reading the name of an exchange, such as `powersgd(rank=4)`, without evaluating anything."""

import re
from dataclasses import dataclass, field

Value = int | float | bool | str

_SPEC = re.compile(r"(?P<name>[A-Za-z_][\w.:-]*)\s*(?:\((?P<arguments>[^()]*)\))?")
_ARGUMENT = re.compile(r"(?P<key>[A-Za-z_]\w*)\s*=\s*(?P<value>[\w.+-]+)")


@dataclass(frozen=True)
class ExchangeSpec:
    """The registered name of an exchange and its keyword arguments."""

    name: str
    arguments: dict[str, Value] = field(default_factory=dict)


def parse(text: str) -> ExchangeSpec:
    """`name` or `name(key=value, ...)`; a value is an integer, a float, true, false or a word.

    Raises ValueError, naming the part that is wrong.
    """
    match = _SPEC.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"exchange {text!r} is not of the form name or name(key=value, ...)")
    arguments: dict[str, Value] = {}
    for part in (match["arguments"] or "").split(","):
        if not part.strip():
            continue
        argument = _ARGUMENT.fullmatch(part.strip())
        if argument is None:
            raise ValueError(f"exchange {text!r}: argument {part.strip()!r} is not of the form key=value")
        if argument["key"] in arguments:
            raise ValueError(f"exchange {text!r}: argument {argument['key']!r} is given twice")
        arguments[argument["key"]] = _value(argument["value"])
    return ExchangeSpec(match["name"], arguments)


def _value(word: str) -> Value:
    if word in ("true", "false"):
        return word == "true"
    for number in (int, float):
        try:
            return number(word)
        except ValueError:
            continue
    return word
