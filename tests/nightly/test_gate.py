"""Whole histories, judged: what is an alarm, what is not, and what is said of it."""

import datetime
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))
import histories as made

from tfscale.suite.nightly import decisions, gate
from tfscale.suite.nightly.forms import Finding, Gate

NEW_TENSORFLOW = {"packages": made.ENVIRONMENT["packages"] | {"tensorflow-cpu": "2.20.0"}}
NEW_CODE = {"directory": {"git": "def1111"}}


def judged(path: Path, **options: Any) -> Gate:
    return gate.answer(path, gate.Options(**options)).gate


def only(found: Gate, verdict: str) -> Finding:
    [finding] = [f for f in found.findings if f.verdict == verdict]
    return finding


def test_a_regression_names_levels_interval_first_bad_run_and_causes(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    good = made.steady(results, {made.BERT: 100, made.VIT: 50}, 25)
    bad = made.steady(results, {made.BERT: 94, made.VIT: 50}, 5, seed=7, environment=NEW_TENSORFLOW | NEW_CODE)
    found = judged(tmp_path)
    assert found.summary["regressed"] == 1 and found.summary["unchanged"] == 1 and found.alarms == 1
    finding = only(found, "regressed")
    assert finding.case_id == made.case_id(made.BERT)
    assert (finding.last_good, finding.since, finding.nights) == (good[-1], bad[0], 5)
    assert finding.before and finding.after and finding.ratio and finding.ratio_ci95
    assert finding.before.value == pytest.approx(100, rel=0.01) and finding.before.unit == "sequences/s"
    assert finding.ratio_ci95[0] < 0.94 < finding.ratio_ci95[1]
    assert finding.before.kind == "simulated"
    causes = {cause.what: cause for cause in finding.causes}
    assert (causes["packages.tensorflow-cpu"].before, causes["packages.tensorflow-cpu"].after) == ("2.19.0", "2.20.0")
    assert causes["directory.git"].command == "git log --oneline abc0000..def1111"
    assert finding.reproduce and finding.reproduce.startswith("tfscale run")
    assert finding.p is not None and finding.p < 0.001 and finding.q is not None and finding.q <= 0.05


def test_an_improvement_is_told_and_alarms_nobody(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    made.steady(results, {made.BERT: 100}, 25)
    made.steady(results, {made.BERT: 108}, 6, seed=7)
    found = judged(tmp_path)
    assert only(found, "improved").ratio == pytest.approx(1.08, rel=0.015) and found.alarms == 0


def test_nothing_changes_and_nothing_is_said(tmp_path: Path) -> None:
    made.steady(made.Results(tmp_path), dict.fromkeys(made.cases(6), 100.0), 40)
    found = judged(tmp_path)
    assert not found.findings and found.summary["unchanged"] == 6


def test_few_nights_are_not_enough(tmp_path: Path) -> None:
    made.steady(made.Results(tmp_path), {made.BERT: 100}, 3)
    found = judged(tmp_path)
    assert found.summary["not_enough_data"] == 1 and not found.alarms


def test_what_fell_and_came_back_is_no_regression(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    made.steady(results, {made.BERT: 100}, 25)
    made.steady(results, {made.BERT: 90}, 7, seed=7)
    made.steady(results, {made.BERT: 100}, 7, seed=9)
    assert judged(tmp_path).alarms == 0


def test_what_fell_and_came_back_half_still_is(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    made.steady(results, {made.BERT: 100}, 25)
    fell = made.steady(results, {made.BERT: 88}, 7, seed=7)
    made.steady(results, {made.BERT: 94}, 7, seed=9)
    finding = only(judged(tmp_path), "regressed")
    assert finding.since == fell[0] and finding.ratio == pytest.approx(0.94, rel=0.01)


def test_a_step_does_not_blow_up_the_noise(tmp_path: Path) -> None:
    """A second, small step after a large one is still seen: conbench's complaint (issue 383)."""
    results = made.Results(tmp_path)
    made.steady(results, {made.BERT: 100}, 30)
    made.steady(results, {made.BERT: 60}, 30, seed=5)
    before = judged(tmp_path)
    assert before.series[0].noise is not None and before.series[0].noise < 0.02
    fell = made.steady(results, {made.BERT: 57}, 6, seed=9)
    finding = only(judged(tmp_path), "regressed")
    assert finding.since == fell[0] and finding.ratio == pytest.approx(0.95, rel=0.01)


def test_a_change_says_which_part_grew(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    slower = made.PARTS | {"exposed_communication": 260}
    made.steady(results, {made.BERT: 100}, 25, parts={made.BERT: made.PARTS})
    made.steady(results, {made.BERT: 94}, 6, seed=7, parts={made.BERT: slower}, memory=1.5e9)
    found = judged(tmp_path)
    told = {one.name: one for one in only(found, "regressed").explanations}
    # A step of 16/100 s, of which 200/1000 are communication; then of 16/94 s and 260/1060.
    part = told["exposed_communication"]
    assert part.verdict == "grew" and part.grown == pytest.approx(16 / 94 * 260 / 1060 - 16 / 100 * 0.2, rel=0.1)
    assert told["compute"].verdict == "unchanged" and told["memory_peak"].verdict == "grew"
    assert next(iter(told)) == "exposed_communication"
    assert {one.metric for one in found.beside} == {"memory_peak", "exposed_communication"}


def test_memory_alone_is_told_beside_and_alarms_nobody(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    made.steady(results, {made.BERT: 100}, 25)
    grown = made.steady(results, {made.BERT: 100}, 6, seed=7, memory=1.4e9)
    found = judged(tmp_path)
    assert not found.findings
    [beside] = found.beside
    assert (beside.metric, beside.since) == ("memory_peak", grown[0]) and beside.ratio == pytest.approx(1.4)


def test_findings_that_began_together_are_one_group(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    names = made.cases(5)
    made.steady(results, dict.fromkeys(names, 100.0), 25)
    made.steady(results, dict.fromkeys(names[:3], 92.0) | dict.fromkeys(names[3:], 100.0), 3, seed=3)
    made.steady(results, dict.fromkeys(names[:3], 92.0) | {names[3]: 90.0, names[4]: 100.0}, 6, seed=7)
    found = judged(tmp_path)
    groups = {f.case_id: f.group for f in found.findings}
    assert len({groups[made.case_id(name)] for name in names[:3]}) == 1 and groups[made.case_id(names[0])]
    assert groups[made.case_id(names[3])] is None


def test_a_failed_case_is_missing_with_its_reason(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    good = made.steady(results, {made.BERT: 100, made.VIT: 50}, 12)
    last = results.night({made.VIT: made.trials(50, 99)}, failed={made.BERT: "killed at 3 GiB"})
    found = judged(tmp_path)
    finding = only(found, "missing")
    assert found.alarms == 1 and (finding.last_good, finding.since) == (good[-1], last)
    assert finding.causes[0].kind == "failure" and "killed at 3 GiB" in finding.causes[0].why


def test_a_case_that_never_came_to_run_is_missing(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    made.steady(results, {made.BERT: 100, made.VIT: 50}, 12)
    results.night({made.VIT: made.trials(50, 99)}, missing=[made.BERT])
    assert only(judged(tmp_path), "missing").case_id == made.case_id(made.BERT)


def test_a_run_that_left_nothing_is_missing_everywhere(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    made.steady(results, {made.BERT: 100, made.VIT: 50}, 12)
    run = results.night({})
    (tmp_path / run / "run.json").unlink()
    assert judged(tmp_path).summary["missing"] == 2


def test_a_run_of_other_cases_is_no_missing_night_until_it_is_the_third(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    made.steady(results, {made.BERT: 100, made.VIT: 50}, 12)
    for missing in (0, 0, 1, 1):
        results.night({made.VIT: made.trials(50, results.count)})
        assert judged(tmp_path).summary["missing"] == missing
    for _ in range(8):
        results.night({made.VIT: made.trials(50, results.count)})
    found = judged(tmp_path)
    assert not found.alarms and any("no longer measured" in note for note in found.notes)


def test_another_suite_on_the_same_results_is_no_missing_night(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    made.steady(results, {made.BERT: 100}, 12)
    results.suite = "quick"
    made.steady(results, {made.VIT: 50}, 5)
    assert not judged(tmp_path).alarms
    assert [one.case_id for one in judged(tmp_path, suite="quick").series] == [made.case_id(made.VIT)]


def test_a_history_without_news_is_missing_where_news_was_expected(tmp_path: Path) -> None:
    made.steady(made.Results(tmp_path), {made.BERT: 100}, 12)
    newest = made.START + datetime.timedelta(days=11)
    for hours, missing in ((30, 0), (40, 1)):
        now = newest + datetime.timedelta(hours=hours)
        assert judged(tmp_path, stale_hours=36.0, now=now).summary["missing"] == missing
    assert not judged(tmp_path).alarms


def accept(path: Path, name: str, reason: str) -> None:
    found = gate.answer(path, gate.Options())
    gate.accept(found, path, made.case_id(name)[:6], reason)


def test_an_accepted_change_survives_the_nights_and_a_worse_one_alarms(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    made.steady(results, {made.BERT: 100, made.VIT: 50}, 25)
    made.steady(results, {made.BERT: 94, made.VIT: 50}, 5, seed=7)
    accept(tmp_path, made.BERT, "dropout is now checked")
    for _ in range(6):
        made.steady(results, {made.BERT: 94, made.VIT: 50}, 1, seed=results.count * 17)
        found = judged(tmp_path)
        assert not found.alarms and "dropout is now checked" in only(found, "accepted").reason
    text = (tmp_path / decisions.ACCEPTED).read_text()
    assert text.startswith("#") and "dropout is now checked" in text and "bert mini mirrored" in text
    made.steady(results, {made.BERT: 89, made.VIT: 50}, 6, seed=77)
    assert only(judged(tmp_path), "regressed").case_id == made.case_id(made.BERT)


def test_an_accepted_end_is_no_alarm(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    made.steady(results, {made.BERT: 100, made.VIT: 50}, 12)
    results.night({made.VIT: made.trials(50, 99)}, missing=[made.BERT])
    accept(tmp_path, made.BERT, "replaced by base")
    results.night({made.VIT: made.trials(50, 98)}, missing=[made.BERT])
    assert not judged(tmp_path).alarms


def test_only_a_change_that_is_there_can_be_accepted(tmp_path: Path) -> None:
    made.steady(made.Results(tmp_path), {made.BERT: 100}, 12)
    with pytest.raises(ValueError, match="names no change"):
        accept(tmp_path, made.BERT, "why not")
    assert not (tmp_path / decisions.ACCEPTED).exists()


def test_a_pinned_baseline_is_compared_with_the_current_level(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    old = made.steady(results, {made.BERT: 106, made.VIT: 50}, 1)[0]
    made.steady(results, {made.BERT: 100, made.VIT: 50}, 60, seed=3)
    assert not judged(tmp_path).alarms
    found = judged(tmp_path, baseline=old)
    finding = only(found, "regressed")
    assert found.baseline == old and finding.last_good == old and finding.case_id == made.case_id(made.BERT)
    assert finding.ratio == pytest.approx(100 / 106, rel=0.015)
    assert judged(tmp_path, baseline=old[:8]).baseline == old
    with pytest.raises(ValueError, match="no run of"):
        judged(tmp_path, baseline="2031")


def test_two_runs_are_enough_for_a_baseline_with_trials(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    first = results.night({made.BERT: [100.0, 100.2, 99.8], made.VIT: [50.0]})
    results.night({made.BERT: [90.0, 90.2, 89.8], made.VIT: [40.0]})
    found = judged(tmp_path, baseline=first)
    assert only(found, "regressed").ratio == pytest.approx(0.9, rel=1e-3)
    assert found.summary["not_enough_data"] == 1


def alternating(path: Path, slow: float, nights: int = 40, step: tuple[int, float] | None = None) -> list[str]:
    """Three nodes by turns, one of them slower by a factor; from a night on all of them by another."""
    results, runs = made.Results(path), []
    for night in range(nights):
        node = night % 3
        level = 100 * (slow if node == 2 else 1.0) * (step[1] if step and night >= step[0] else 1.0)
        values = {name: made.trials(level, 50 * night + k) for k, name in enumerate((made.BERT, made.VIT))}
        runs.append(results.night(values, environment={"host": f"node-{node}"}))
    return runs


def test_a_slow_node_is_a_finding_of_its_own(tmp_path: Path) -> None:
    alternating(tmp_path, 0.93)
    found = judged(tmp_path)
    finding = only(found, "slow_node")
    assert not found.alarms and found.summary["slow_node"] == 1
    assert (finding.node, finding.case_id) == ("node-2", None) and finding.ratio == pytest.approx(0.93, abs=0.015)
    assert found.summary["unstable"] == 0


def test_a_regression_shows_through_nodes_of_different_speed(tmp_path: Path) -> None:
    runs = alternating(tmp_path, 0.95, nights=44, step=(36, 0.93))
    found = judged(tmp_path)
    assert found.summary["regressed"] == 2
    for finding in (f for f in found.findings if f.verdict == "regressed"):
        assert abs(runs.index(str(finding.since)) - 36) <= 1 and finding.ratio == pytest.approx(0.93, abs=0.015)


def test_a_node_that_turns_slow_is_no_software_regression(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    for night in range(44):
        node = night % 2
        level = 100 * (0.9 if node and night >= 30 else 1.0)
        results.night({made.BERT: made.trials(level, night)}, environment={"host": f"node-{node}"})
    found = judged(tmp_path)
    assert not found.alarms
    assert only(found, "slow_node").node == "node-1"


def test_moving_to_a_slower_node_is_the_nodes(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    made.steady(results, {made.BERT: 100}, 25, environment={"host": "old"})
    made.steady(results, {made.BERT: 92}, 6, seed=7, environment={"host": "new"})
    found = judged(tmp_path)
    assert not found.alarms and only(found, "slow_node").node == "new"


def test_a_node_and_software_that_change_together_are_not_told_apart(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    made.steady(results, {made.BERT: 100}, 25, environment={"host": "old"})
    made.steady(results, {made.BERT: 92}, 6, seed=7, environment={"host": "new"} | NEW_CODE)
    found = judged(tmp_path)
    assert not found.alarms and "run one night on the old node" in only(found, "suspicious").reason


def test_a_name_of_its_own_every_night_hides_no_regression(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    for night in range(31):
        level = 100 if night < 25 else 93
        results.night({made.BERT: made.trials(level, night)}, environment={"host": f"container-{night}"})
    assert judged(tmp_path).alarms == 1


def test_a_false_discovery_rate_holds_over_many_cases() -> None:
    """Nothing changes: of 60 histories of 8 cases, hardly one may alarm."""
    from tfscale.suite.nightly import verdicts
    from tfscale.suite.nightly.fingerprint import Machine

    alarms = 0
    for history in range(60):
        noise = np.random.default_rng(4242 + history)
        own = [made_series(noise.normal(0, 0.01, 60), f"c{k}", Machine("cpu", "", "", 1)) for k in range(8)]
        judged_ = verdicts.believe([verdicts.outcome(one, 0.02) for one in own], 0.05)
        alarms += any(one.verdict in ("regressed", "improved") for one in judged_)
    assert alarms <= 4


def made_series(logs: Any, case: str, machine: Any) -> Any:
    from tfscale.suite.nightly.reading import Surroundings, Trial
    from tfscale.suite.nightly.series import Night, Series

    around = Surroundings(machine, "node", {})
    nights = [
        Night(
            run,
            (
                Trial(
                    run, case, {}, None, 0, "", float(100 * np.exp(v)), "x/s", "simulated", "VALID",
                    None, None, around, "", Path(),
                ),
            ),
        )
        for run, v in ((made.run_id(i), v) for i, v in enumerate(logs))
    ]  # fmt: skip
    return Series(case, {}, None, machine, nights)


def test_expected_false_alarms_follow_series_and_pace(tmp_path: Path) -> None:
    made.steady(made.Results(tmp_path), dict.fromkeys(made.cases(4), 100.0), 30)
    expected = judged(tmp_path).expected_false_alarms
    assert expected is not None and (expected.series, expected.nights_a_month) == (4, 30.0)
    assert expected.a_month == pytest.approx(4 * 30 * expected.rate)


def test_the_newest_run_on_another_machine_is_told(tmp_path: Path) -> None:
    results = made.Results(tmp_path)
    made.steady(results, {made.BERT: 100}, 12)
    made.steady(results, {made.BERT: 50}, 1, environment={"cpu": made.ENVIRONMENT["cpu"] | {"model": "Another"}})
    found = judged(tmp_path)
    assert not found.alarms and any("another machine than 12 runs" in note for note in found.notes)


def test_damaged_records_and_decisions_are_named(tmp_path: Path) -> None:
    made.steady(made.Results(tmp_path), {made.BERT: 100}, 12)
    sorted(tmp_path.rglob("record.json"))[0].write_bytes(b"{")
    assert len(judged(tmp_path).warnings) == 1
    (tmp_path / decisions.ACCEPTED).write_text("- {case_id: 3}\n")
    with pytest.raises(decisions.DecisionsError, match=r"accepted\.yaml.*mend it or move it away"):
        judged(tmp_path)
    shutil.rmtree(tmp_path / made.run_id(0))
    for file in tmp_path.rglob("record.json"):
        file.write_text("[]")
    (tmp_path / decisions.ACCEPTED).unlink()
    with pytest.raises(ValueError, match="no record that can be read"):
        judged(tmp_path)


def test_the_document_is_its_schemas(tmp_path: Path) -> None:
    from tfscale.suite.schemas import MODELS

    results = made.Results(tmp_path)
    made.steady(results, {made.BERT: 100}, 25)
    made.steady(results, {made.BERT: 90}, 5, seed=4)
    text = judged(tmp_path, canary=True).model_dump_json(by_alias=True)
    told = json.loads(text)
    assert (
        told["schema"] == "tfscale.gate/1"
        and MODELS["tfscale.gate/1"].model_validate(told).model_dump_json(by_alias=True) == text
    )
