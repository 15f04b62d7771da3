"""What other tools' own readers make of an export."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tfscale.suite.formats import mllog, openmetrics, transfer
from tfscale.suite.formats.forms import Imported
from tfscale.suite.record import Run

READ_EVENTS = """
import json, sys, types
sys.modules["tensorboard.compat.notf"] = types.ModuleType("notf")  # TensorBoard's own reader, not TensorFlow's
from tensorboard.backend.event_processing import event_accumulator, plugin_event_multiplexer
runs = plugin_event_multiplexer.EventMultiplexer(tensor_size_guidance={"tensors": 0})
runs.AddRunsFromDirectory(sys.argv[1]).Reload()
said = {run: runs.SummaryMetadata(run, "quantities/step_time").summary_description for run in runs.Runs()}
plugins = {runs.SummaryMetadata(run, "quantities/step_time").plugin_data.plugin_name for run in runs.Runs()}
values = {}
for run in runs.Runs():
    one = event_accumulator.EventAccumulator(sys.argv[1] + "/" + run, size_guidance={"scalars": 0}).Reload()
    values[run] = {tag: [[e.step, e.value, e.wall_time] for e in one.Scalars(tag)] for tag in one.Tags()["scalars"]}
assert "tensorflow" not in sys.modules
print(json.dumps({"said": said, "plugins": sorted(plugins), "values": values}))
"""


def test_prometheus_reads_every_known_quantity_of_every_case(stored: tuple[Path, Run], tmp_path: Path) -> None:
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    results, run = stored
    transfer.export(results, "openmetrics", tmp_path / "node.prom")
    text = (tmp_path / "node.prom").read_text()
    assert text.endswith("# EOF\n")
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    samples = {
        (sample.name, sample.labels["case_id"]): sample
        for family in families.values()
        for sample in family.samples
        if "case_id" in sample.labels and family.type == "gauge"
    }
    seen = 0
    for case in run.cases:
        for name, quantity in case.quantities.items():
            if quantity.value is None:
                continue
            metric = f"tfscale_{name}_{openmetrics.unit_of(quantity.unit)}"
            sample = samples[metric, case.case_id]
            assert (sample.value, sample.labels["kind"]) == (quantity.value, quantity.kind)
            assert families[metric].unit and metric.endswith(families[metric].unit)
            assert quantity.ci95 is not None
            low, high = (
                samples[f"tfscale_{name}_ci95_{end}_{families[metric].unit}", case.case_id] for end in ("low", "high")
            )
            assert (low.value, high.value) == quantity.ci95
            seen += 3
    assert seen == len(samples)
    states = {
        s.labels["case_id"]: s.labels["tfscale_case_state"] for s in families["tfscale_case_state"].samples if s.value
    }
    assert sorted(states.values()) == ["FAILED", "VALID", "VALID"]


@pytest.mark.parametrize(
    ("unit", "name"),
    [
        ("s", "seconds"), ("1", "ratio"), ("B", "bytes"), ("bytes", "bytes"), ("B/s", "bytes_per_second"),
        ("sequences/s", "sequences_per_second"), ("J", "joules"), ("W", "watts"), ("", "ratio"),
    ],
)  # fmt: skip
def test_units_are_base_units_in_words(unit: str, name: str) -> None:
    assert openmetrics.unit_of(unit) == name


def test_a_label_may_hold_anything() -> None:
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    odd = 'a"b\\c\nd\\n'
    text = f"# TYPE x gauge\n{openmetrics._sample('x', {'host': odd}, 1.5)}\n# EOF\n"
    ((sample,),) = (family.samples for family in parser.text_string_to_metric_families(text))
    assert (sample.labels, sample.value) == ({"host": odd}, 1.5)


def test_mlperf_loggings_parser_reads_every_line(stored: tuple[Path, Run], tmp_path: Path) -> None:
    parser = pytest.importorskip("mlperf_logging.compliance_checker.mlp_parser")
    results, run = stored
    transfer.export(results, "mllog", tmp_path / "result_0.txt")
    lines, failed = parser.parse_file(str(tmp_path / "result_0.txt"), ruleset="5.1.0")
    assert not failed
    assert [line.key for line in lines] == ["global_batch_size", "run_start", "tracked_stats", "run_stop"] * 4
    for number, record in enumerate(run.records):
        batch, start, stats, stop = lines[4 * number : 4 * number + 4]
        assert batch.value["value"] == record.quantities["global_batch"].value
        assert stats.value["value"] == {"throughput": record.quantities["throughput"].value}
        assert stats.value["metadata"]["step"] == 240
        step = record.quantities["step_time"].value
        assert step is not None
        assert stop.timestamp - start.timestamp == pytest.approx(240 * step * 1e3, abs=1)


def test_lines_of_mlperf_loggings_own_logger_are_read_with_any_prefix(tmp_path: Path) -> None:
    pytest.importorskip("mlperf_logging")
    program = (
        "from mlperf_logging import mllog; log = mllog.get_mllogger()\n"
        "log.event('submission_benchmark', 'bert'); log.event('global_batch_size', 256)\n"
        "log.start('run_start', time_ms=1000); log.event('tracked_stats', {'throughput': 81.5}, metadata={'step': 10})\n"
        "log.event('eval_accuracy', 0.7); log.end('run_stop', metadata={'status': 'success'}, time_ms=61500)"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=tmp_path)
    text = "".join(f"{prefix}{line}\n" for prefix, line in zip(("0: ", "[0] ", "") * 9, done.stdout.splitlines()))  # noqa: B905
    (tmp_path / "result_0.txt").write_text(f"INFO starting\n{text}")
    answer = transfer.import_(tmp_path / "result_0.txt", "mllog", tmp_path, {})
    document = Imported.model_validate_json(Path(answer.files[0]).read_bytes())
    stats, run = document.rows
    assert (stats.quantities["throughput"].value, stats.labels["step"]) == (81.5, "10")
    assert (run.quantities["run_time"].value, run.quantities["global_batch"].value) == (60.5, 256)
    assert (run.labels["status"], run.labels["submission_benchmark"]) == ("success", "bert")
    assert "eval_accuracy" in answer.lost[0]


def test_mllog_round_trip_keeps_throughput_and_batch(stored: tuple[Path, Run], tmp_path: Path) -> None:
    results, run = stored
    transfer.export(results, "mllog", tmp_path / "r.txt")
    rows = Imported.model_validate_json(
        Path(transfer.import_(tmp_path / "r.txt", "mllog", tmp_path, {}).files[0]).read_bytes()
    ).rows
    for name, row in (("throughput", "tracked_stats"), ("global_batch", "run")):
        found = [each.quantities[name] for each in rows if each.name == row]
        wanted = [record.quantities[name] for record in run.records]
        assert [(q.value, q.unit, q.kind) for q in found] == [(q.value, q.unit, q.kind) for q in wanted]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "no :::MLLOG line"),
        (":::MLPv0.5.0 bert 1.0 (x.py:1) run_start", "MLPerf v0.5"),
        (f"{mllog.TOKEN}{{", "not JSON"),
        (f"{mllog.TOKEN}[]", "no time_ms"),
        (f'{mllog.TOKEN}{{"key": "run_start", "value": null}}', "no time_ms, event_type, metadata"),
        (
            mllog.TOKEN
            + json.dumps({"time_ms": 1, "event_type": "", "key": "tracked_stats", "value": 3, "metadata": None}),
            "an object of name: number",
        ),
        (
            mllog.TOKEN
            + json.dumps({"time_ms": 1, "event_type": "", "key": "global_batch_size", "value": "x", "metadata": {}}),
            "'x' is not a number",
        ),
    ],
    ids=range(7),
)
def test_an_mllog_that_is_none_is_named(tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "r.txt").write_text(f"INFO\n{line}\n")
    with pytest.raises(ValueError, match=rf"r\.txt.*{said}"):
        transfer.import_(tmp_path / "r.txt", "mllog", tmp_path / "results", {})
    assert not (tmp_path / "results").exists()


def test_tensorboard_reads_blocks_and_quantities(stored: tuple[Path, Run], tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    results, run = stored
    answer = transfer.export(results, "tensorboard", tmp_path / "board")
    assert answer.files == 4
    done = subprocess.run(
        [sys.executable, "-c", READ_EVENTS, str(tmp_path / "board")], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    read = json.loads(done.stdout)
    assert read["plugins"] == ["scalars"] and set(read["said"].values()) == {"s, simulated, mean"}
    for record in run.records:
        (name,) = (name for name in read["values"] if record.case_id in name and name.endswith(f"/{record.trial}"))
        values = read["values"][name]
        for quantity, q in record.quantities.items():
            if q.value is not None:
                ((step, value, _),) = values[f"quantities/{quantity}"]
                assert step == 240 and value == pytest.approx(q.value, rel=2**-24)
        blocks = values["blocks/step_time/rank0"]
        assert len(blocks) == 60 and [step for step, _, _ in blocks] == sorted({step for step, _, _ in blocks})
        steady = [value for _, value, _ in blocks[6:]]
        assert sum(steady) / len(steady) == pytest.approx(record.quantities["step_time"].value, rel=0.05)


def test_duckdb_reads_parquet_with_types_and_nulls(stored: tuple[Path, Run], tmp_path: Path) -> None:
    import duckdb

    results, run = stored
    transfer.export(results, "parquet", tmp_path / "r.parquet")
    rows = duckdb.read_parquet(str(tmp_path / "r.parquet"))
    wanted = sum(len(record.quantities) + len(record.phases) for record in run.records)
    assert rows.count("*").fetchall() == [(wanted,)]
    found = rows.filter("metric = 'step_time'").select("case_id, trial, value, low, high").fetchall()
    assert sorted(found) == sorted(
        (r.case_id, r.trial, q.value, *(q.ci95 or ())) for r in run.records for q in [r.quantities["step_time"]]
    )
    assert rows.filter("value is null and reason is null").count("*").fetchall() == [(0,)]
