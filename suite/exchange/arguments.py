"""What the arguments of exchanges may be. TypeErrors name the argument, the value, and what is allowed."""

import math
from typing import Any


def whole(name: str, value: Any, least: int = 1) -> int:
    """An integer of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise TypeError(f"{name} is {value!r}, and must be an integer of {least} or more")
    return value


def share(name: str, value: Any, below: float) -> float:
    """A number above 0 and below `below`."""
    if _is_number(value) and 0 < value < below:
        return float(value)
    raise TypeError(f"{name} is {value!r}, and must be a number above 0 and below {below:g}")


def at_least_zero(name: str, value: Any, below: float = math.inf) -> float:
    """A finite number of 0 or more, below `below`."""
    if _is_number(value) and 0 <= value < below:
        return float(value)
    limit = "" if below == math.inf else f" and below {below:g}"
    raise TypeError(f"{name} is {value!r}, and must be a finite number of 0 or more{limit}")


def _is_number(value: Any) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and math.isfinite(value)
