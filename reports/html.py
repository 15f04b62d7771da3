"""Templates and static files: what every page is made with."""

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from tfscale.reports import text

HERE = Path(__file__).parent


@cache
def templates() -> jinja2.Environment:
    """The templates, autoescaped; a name that a page does not know is an error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _printable(value: Any) -> Any:
    """Applied to each value on its own: over the whole page, half an escape sequence could eat what follows it."""
    return text.printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def static(name: str) -> str:
    """A style sheet or script of ours."""
    return (HERE / "static" / name).read_text(encoding="utf-8")


def hash_of(script: str) -> str:
    """What the page's content policy lets run: this script and nothing that a hostile name might smuggle in."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
