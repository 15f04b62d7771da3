"""What all commands share: the `--json` option, exit codes, how an error is told and a document printed."""

import json
from typing import Annotated, Any

import typer

from tfscale.suite import display
from tfscale.suite.display import err

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, and nothing else there.")]

GOOD, FINDING, USAGE, FAILED = 0, 1, 2, 3


def fail(message: str, code: int = USAGE) -> typer.Exit:
    """Say what is wrong on stderr and give the exit to raise."""
    err.print(f"tfscale: {message}", style="red", markup=False, soft_wrap=True)
    return typer.Exit(code)


def answer(document: Any) -> None:
    display.out.file.write(json.dumps(document, indent=1, allow_nan=False) + "\n")
