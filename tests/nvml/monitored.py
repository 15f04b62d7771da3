"""The nvml monitor over the double, in a process of its own: `python monitored.py FOLDER SAMPLES PERIOD_S VISIBLE`.

VISIBLE is a JSON object. Prints {"columns": {key: Column}, "fast": [[before, after, {key: value}]], "slow": the same,
"facts": [...]}: one entry a sample, times in seconds on the monotonic clock.
"""

import dataclasses
import json
import sys
import time
from pathlib import Path

from tfscale.suite.monitors.base import Target
from tfscale.suite.monitors.nvml import Nvml
from tfscale.suite.sources.here import here


def main(folder: str, samples: str, period_s: str, visible: str) -> None:
    monitor = Nvml(here(), Target(Path(folder), json.loads(visible)))
    columns = list(monitor.columns())
    groups = {
        "fast": [column for column in columns if column.state == "ok" and not column.slow],
        "slow": [column for column in columns if column.state == "ok" and column.slow],
    }
    told: dict[str, list[object]] = {"fast": [], "slow": [], "facts": []}
    for _ in range(int(samples)):
        time.sleep(float(period_s))
        for name, group in groups.items():
            before = time.monotonic()
            values = monitor.sample(group)
            keyed = {column.key: value for column, value in zip(group, values, strict=True)}
            told[name].append([before, time.monotonic(), keyed])
        told["facts"].append(monitor.facts())
    monitor.close()
    described = {column.key: dataclasses.asdict(column) for column in columns}
    print(json.dumps({"columns": described, **told}))


if __name__ == "__main__":
    main(*sys.argv[1:])
