"""docs/nightly.md is there to be copied: its YAML parses, and every command in it exists with those options."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from tfscale import harness

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
COMMAND = re.compile(r"(?:^|[\s'\"/])tfscale ((?:run|gate|show|doctor|compare|report)\b[^\n|]*)")


@pytest.fixture(scope="module")
def page(root: Path) -> str:
    return (root / "docs" / "nightly.md").read_text()


def commands(page: str) -> list[list[str]]:
    """The words of every command of ours in a code block; what a shell would add is cut off."""
    found = []
    for _, block in BLOCK.findall(page):
        for match in COMMAND.finditer(block):
            plain = re.split(r"\s(?:\|\||&&|;)|' \}|'$", match[1])[0]
            found.append(shlex.split(plain.strip()))
    return found


def options(name: str) -> dict[str, Any]:
    command = typer.main.get_command(harness.app).commands[name]  # type: ignore[attr-defined]
    return {flag: param for param in command.params for flag in param.opts}


def test_the_yaml_is_what_each_service_reads(page: str) -> None:
    github, gitlab = (yaml.safe_load(block) for kind, block in BLOCK.findall(page) if kind == "yaml")
    # YAML 1.1 reads the key `on` as true, which GitHub does not.
    assert github[True]["schedule"][0]["cron"] == "0 2 * * *"
    for step in github["jobs"]["nightly"]["steps"]:
        assert step.keys() <= {"name", "uses", "run", "if", "with"} and ("uses" in step) != ("run" in step)
    assert gitlab["nightly"]["artifacts"]["reports"]["junit"] == "gate.xml"
    for job in gitlab.values():
        assert all(isinstance(line, str) for line in job["script"])


def test_every_command_exists_with_its_options(page: str, root: Path) -> None:
    found = commands(page)
    assert len(found) >= 14
    for name, *words in found:
        known = options(name)
        for word in words:
            if word.startswith("-"):
                assert word in known, f"tfscale {name} {word}"
        for word in words:
            if word.startswith("suites/"):
                assert (root / word).is_file(), word


def test_the_ready_suite_has_its_canary(root: Path) -> None:
    import json

    from tfscale.suite import suitefile

    cases = suitefile.read(root / "suites" / "nightly.yaml").cases
    work = [json.dumps({k: v for k, v in case.axes().items() if k != "seed"}, sort_keys=True) for case in cases]
    assert len(work) - len(set(work)) == 2
