"""Suite files: what a matrix expands to, and that every mistake names file, line, value and the way out."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfscale.suite import suitefile
from tfscale.suite.spec import Suite

GOOD = """\
name: example
matrix:
  workload: [bert, vit]
  preset: {bert: [tiny, mini], vit: [micro]}
  strategy: [mirrored]
  devices: [1, 2]
  per_replica_batch: {bert: [8], vit: [32]}
  precision: [float32, mixed_bfloat16]
"""


def build(text: str) -> Suite:
    return suitefile.build(suitefile.parse(text, "s.yaml"))


def test_the_product_of_all_axes_with_a_map_by_workload() -> None:
    cases = build(GOOD).cases
    assert len(cases) == (2 + 1) * 2 * 2
    assert [(c.workload, c.preset, c.per_replica_batch) for c in cases[::4]] == [
        ("bert", "tiny", 8), ("bert", "mini", 8), ("vit", "micro", 32),
    ]  # fmt: skip


def test_a_scalar_is_a_list_of_one() -> None:
    text = "name: n\nmatrix: {workload: bert, preset: tiny, per_replica_batch: 4}\n"
    assert [c.per_replica_batch for c in build(text).cases] == [4]


def test_exclude_drops_what_matches_all_its_keys_and_include_adds_whole_cases() -> None:
    text = GOOD + (
        "exclude:\n  - {workload: bert, precision: mixed_bfloat16}\n  - {preset: [mini], devices: 2}\n"
        "include:\n  - {workload: bert, preset: base, per_replica_batch: 1}\n"
    )
    cases = build(text).cases
    assert len(cases) == 12 - 4 - 1 + 1
    assert cases[-1].preset == "base"
    assert not any(c.workload == "bert" and c.precision == "mixed_bfloat16" for c in cases)


def test_exclude_sees_defaults_of_axes_that_the_matrix_leaves_out() -> None:
    assert len(build(GOOD + "exclude: [{xla: none, devices: 1}]\n").cases) == 6


@pytest.mark.parametrize(
    ("change", "line", "words"),
    [
        (("precision:", "precison:"), 8, "unknown key 'precison' in matrix.*did you mean 'precision'"),
        (("mixed_bfloat16", "mixed_bf16"), 8, "'mixed_bf16' is not allowed.*float32.*did you mean 'mixed_bfloat16'"),
        (("devices: [1, 2]", "devices: []"), 6, "axis devices is empty"),
        (("devices: [1, 2]", "devices: [1, two]"), 6, "devices.*'two'"),
        (("devices: [1, 2]", "devices: [1, 1]"), 2, "duplicate case"),
        (("devices: [1, 2]", "devices: [1, 0]"), 6, "devices.*0.*greater than or equal to 1"),
        (("strategy: [mirrored]", "strategy: [miror]"), 5, "strategy 'miror' is not known.*did you mean 'mirrored'"),
        (("[tiny, mini]", "[tinny, mini]"), 4, "preset of bert 'tinny' is not known.*did you mean 'tiny'"),
        (("name: example", "name: 'a b'"), 1, "name"),
        (("name: example", "nam: example"), 1, "unknown key 'nam' in suite.*did you mean 'name'"),
        (("name: example", "name: example\nname: twice"), 2, "'name' is given twice"),
        (("[bert, vit]", "[bert, vit"), 4, "not valid YAML"),
        (("workload: [bert, vit]", "workload: [bert, resnet]"), 3, "resnet"),
        (("devices: [1, 2]", "devices: {bert: [1], resnet: [2]}"), 6, "resnet"),
        (("devices: [1, 2]", "devices: {bert: [1]}"), 6, "no entry for workload 'vit'"),
        (("devices: [1, 2]", "xla: [off]"), 6, "False.*YAML reads"),
    ],
)
def test_a_mistake_names_file_line_value_and_what_is_allowed(change: tuple[str, str], line: int, words: str) -> None:
    with pytest.raises(suitefile.SuiteError) as caught:
        build(GOOD.replace(*change))
    message = str(caught.value)
    assert message.startswith(f"s.yaml:{line}: "), message
    assert re.search(words, message, re.DOTALL), message


def test_a_million_cases_are_refused_before_they_are_made() -> None:
    hundred = list(range(1, 101))
    text = GOOD.replace("[1, 2]", str(hundred)) + f"  seed: {hundred}\n  steps_per_call: {hundred}\n"
    with pytest.raises(suitefile.SuiteError, match=r"s.yaml:2: the matrix has 6,000,000 cases .*at most 10,000"):
        build(text)


def test_aliases_are_refused() -> None:
    with pytest.raises(suitefile.SuiteError, match="aliases"):
        build("name: n\ninclude: [&a {workload: bert, preset: tiny, per_replica_batch: 1}, *a]\n")


def test_nothing_in_a_file_is_constructed_as_code() -> None:
    with pytest.raises(suitefile.SuiteError, match="not valid YAML"):
        build("name: !!python/object/apply:os.system ['true']\n")


@pytest.mark.parametrize("text", ["", "[]", "just words", "name: n\n", "name: n\nmatrix: 3\n", "name: n\ninclude: 3\n",
                                  "name: n\nmatrix: {workload: bert}\nmeasure: 3\n", "\x00", "a: [" * 400])  # fmt: skip
def test_what_is_no_suite_is_refused_with_a_line(text: str) -> None:
    with pytest.raises(suitefile.SuiteError, match=r"^s\.yaml:\d+: "):
        build(text)


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="abc:[]{}-, \n'\"&*!|>#%@0123", max_size=60))
def test_any_text_gives_a_suite_or_a_suite_error(text: str) -> None:
    try:
        build("name: n\n" + text)
    except suitefile.SuiteError as error:
        assert str(error).startswith("s.yaml:")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("", None), ("target_loss: false\n", None), ("target_loss: true\n", 5), ("target_loss: {seeds: 2}\n", 2)],
)
def test_trainings_to_a_target_loss_are_asked_for(text: str, wanted: int | None) -> None:
    told = build(GOOD + text).target_loss
    assert (told and told.seeds) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("", None), ("recovery: true\n", ("kill", (0,))), ("recovery: {fault: cut, seeds: [3, 4]}\n", ("cut", (3, 4)))],
)
def test_failures_are_asked_for(text: str, wanted: tuple[str, tuple[int, ...]] | None) -> None:
    told = build(GOOD + text).recovery
    assert (told and (told.fault, told.seeds)) == wanted


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("target_loss: 3", "target_loss must be false, true or a mapping, got int 3"),
        ("target_loss: {step: 3}", "unknown key 'step' in target_loss .*did you mean 'steps'"),
        ("target_loss: {steps: 300, limit: 200}", "target_loss.limit: 200 steps are fewer than the 300"),
        ("target_loss: {steps: 10}", "target_loss: smoothing: 20 steps cannot be averaged within the first 10"),
        ("target_loss: {seeds: 0}", "target_loss.seeds: got 0"),
        ("recovery: {fault: crash}", "recovery.fault: 'crash' is not allowed .allowed: kill, freeze, cut"),
        ("recovery: {seed: 3}", "unknown key 'seed' in recovery .*did you mean 'seeds'"),
        ("recovery: {period_steps: 60}", "recovery.period_steps: 60 is no less than the 60 steps"),
        ("recovery: {keep: 1}", "recovery.keep: got 1"),
        ("recovery: {seeds: [1, 1]}", "recovery.seeds: .*names one twice"),
    ],
)
def test_what_is_no_target_is_refused_with_its_line(text: str, words: str) -> None:
    line = GOOD.count("\n") + 1
    with pytest.raises(suitefile.SuiteError, match=rf"^s\.yaml:{line}: {words}"):
        build(GOOD + text + "\n")


READY = ("quick", "nightly", "scaling-weak", "scaling-strong", "precision", "strategies", "exchange")


@pytest.mark.parametrize("name", READY)
def test_the_ready_suites_are_good(root: Path, name: str) -> None:
    suite = suitefile.read(root / "suites" / f"{name}.yaml")
    assert suite.name == name
    assert suite.cases


def test_quick_covers_what_a_first_run_must_show(root: Path) -> None:
    cases = suitefile.read(root / "suites" / "quick.yaml").cases
    assert len(cases) >= 16
    assert {c.workload for c in cases} == {"bert", "vit", "recommender"}
    assert {c.strategy for c in cases} == {"one_device", "mirrored", "multi_worker_mirrored", "parameter_server"}
    assert {c.devices for c in cases} == {1, 2}
    assert {c.precision for c in cases} == {"float32", "mixed_bfloat16"}
    assert {c.xla for c in cases} == {"none", "cluster"}
    assert sum(c.input.kind == "files" for c in cases) >= 3
