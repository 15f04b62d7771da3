"""The page as a whole: self-contained, escaped, the same every time, and sensible for every kind of run."""

import re
from html.parser import HTMLParser

import builder
import pytest

from tfscale.reports.page import scaling_report
from tfscale.suite.caseresult import case_result
from tfscale.suite.record import Check, Retry, Run
from tfscale.suite.spec import Case

HOSTILE = '"><script>alert(1)</script><img src=x onerror=alert(2)>{{ 7*7 }} $\\frac$'
ONE = Case(workload="bert", preset="tiny", per_replica_batch=8)
TWO = Case(workload="bert", preset="tiny", per_replica_batch=8, strategy="mirrored", devices=2)


class Page(HTMLParser):
    """Tags, attributes, ids and text outside of script and style; whether the tags nest."""

    VOID = frozenset({"meta", "link", "img", "br", "hr", "input", "line", "path", "rect", "use", "col"})

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.open: list[str] = []
        self.crossed: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag in self.VOID:
            return
        if self.open and self.open[-1] == tag:
            self.open.pop()
        elif tag in self.open and tag not in ("li", "p", "dt", "dd"):
            self.crossed.append(tag)

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("script", "style"):
            self.words.append(data)

    @property
    def text(self) -> str:
        return re.sub(r"[ \n]+", " ", " ".join(self.words))


def run_of(*cases: Case, trials: int = 1) -> Run:
    results, records = builder.measured(list(cases), trials)
    return builder.run_of(tuple(results), tuple(records))


def render(run: Run) -> Page:
    return Page(scaling_report(run, {record.id: builder.blocks(record) for record in run.records}))


def test_nothing_is_loaded_from_anywhere(example_page: str) -> None:
    assert not re.search(r"https?:|//[a-z]", example_page)
    assert "@import" not in example_page
    assert not re.findall(r"url\((?!#)", example_page)
    for tag, attributes in Page(example_page).tags:
        assert tag not in ("link", "iframe", "object", "embed", "img", "base", "form")
        for name in ("src", "href", "action", "data", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#")


def test_tags_nest_and_ids_are_unique_and_links_lead_somewhere(example_page: str) -> None:
    page = Page(example_page)
    assert page.crossed == []
    assert page.open == []
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {(attributes.get("href") or "#findings")[1:] for _, attributes in page.tags if "href" in attributes}
    assert links <= set(ids)


def test_the_page_is_whole_without_its_script(example_page: str) -> None:
    page = Page(re.sub(r"<script>.*?</script>", "", example_page, flags=re.S))
    for words in ("What this run says", "Every case", "Scaling", "Precision and XLA", "Block times", "Environment"):
        assert words in page.text
    assert len(re.findall(r"<script", example_page)) == 1


def test_findings_are_the_records_numbers() -> None:
    one, two = builder.record(ONE, step_s=0.1), builder.record(TWO, step_s=0.1399)
    text = render(builder.run_of((case_result([one]), case_result([two])), (one, two))).text
    assert "2 devices give 1.43× of one device (71\u202f% efficiency, simulated)." in text
    assert "within one trial" in text
    assert "Every case has one trial only" in text


def test_all_outcomes_and_their_reasons_are_there(example_page: str) -> None:
    text = Page(example_page).text
    for words in (
        "the last level has 14 blocks, 20 are needed",
        "rank 5 moved by its own gradient",
        "tf32 needs an NVIDIA GPU",
        "XLA cannot compile a sparse update",
        "rank 2 ended with signal 9 in step 41",
        "collective aborted, peer /job:worker/task:2 is gone",
        "no peak is known for this CPU",
        "tfscale run suites/example.yaml --only 'workload=vit,devices=8'",
        "1 INVALID case left out",
        "Example 9000 64-Core Processor",
        "All of the numbers on this page are simulated",
    ):
        assert words in text, words


def test_launches_that_went_again_are_told() -> None:
    retry = Retry(classification="lost_rank", reason="ended by <SIGKILL>", rank=1)
    record = builder.record(ONE).model_copy(update={"retries": (retry, retry)})
    page = scaling_report(builder.run_of((case_result([record]),), (record,)), {})
    assert "2 launches failed and went again (lost_rank 2)" in page
    assert page.count("ended by &lt;SIGKILL&gt;") == 2 and "in the end: result" in page


def test_the_same_run_makes_the_same_page() -> None:
    run = run_of(ONE, TWO, trials=2)
    blocks = {record.id: builder.blocks(record) for record in run.records}
    assert scaling_report(run, blocks) == scaling_report(run, blocks)


def test_names_logs_and_environment_are_escaped() -> None:
    case = Case(workload=HOSTILE, preset=HOSTILE, per_replica_batch=8, env={"TF_X": HOSTILE})
    more = case.model_copy(update={"strategy": HOSTILE, "devices": 2, "xla": "cluster"})
    check = Check(name=HOSTILE, status="SUSPECT", detail=HOSTILE)
    records = [builder.record(each, checks=(check,)) for each in (case, more)]
    records = [r.model_copy(update={"reproduce": HOSTILE, "effective": {HOSTILE: HOSTILE}}) for r in records]
    failed = (builder.failure(more, "error", HOSTILE, HOSTILE + "\x1b]0;title\x00", 0),)
    pruned = (builder.PRUNED[0].model_copy(update={"reason": HOSTILE}),)
    run = builder.run_of(
        tuple(case_result([r]) for r in records), tuple(records), failed, pruned,
        suite=HOSTILE, run=HOSTILE, environment={HOSTILE: HOSTILE, "host": HOSTILE, "cpu": {"model": HOSTILE}},
    )  # fmt: skip
    html = scaling_report(run, {}, others=(HOSTILE,))
    page = Page(html)
    assert [tag for tag, _ in page.tags].count("script") == 1
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert not [name for _, attributes in page.tags for name in attributes if name.startswith("on")]
    assert "{{ 7*7 }}" in html
    assert "\x00" not in html
    assert page.crossed == []
    html.encode("utf-8")


def test_a_policy_lets_only_our_script_run(example_page: str) -> None:
    import base64
    import hashlib

    (policy,) = re.findall(r'Content-Security-Policy" content="([^"]+)"', example_page)
    (script,) = re.findall(r"<script>(.*?)</script>", example_page, flags=re.S)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src &#39;sha256-{digest}&#39;" in policy or f"script-src 'sha256-{digest}'" in policy
    assert "default-src 'none'" in policy
    assert len(script) < 2600


def test_kinds_never_share_a_line_or_an_unmarked_column() -> None:
    records = [builder.record(ONE, kind="measured"), builder.record(TWO, kind="measured")]
    four = TWO.model_copy(update={"devices": 4})
    records.append(builder.record(four, kind="published"))
    page = render(builder.run_of(tuple(case_result([r]) for r in records), tuple(records)))
    assert "mirrored (measured)" in page.text
    assert "mirrored (published)" in page.text
    assert "kinds marked" in page.text
    assert "Some of the numbers on this page are published" in page.text


def test_unknown_is_a_dash_with_its_reason_and_never_zero() -> None:
    page = render(run_of(Case(workload="recommender", preset="micro", per_replica_batch=128)))
    assert "– 2" in page.text or "–2" in page.text.replace(" ", "")
    titles = [attributes.get("title") for _, attributes in page.tags]
    assert "no peak is known for this CPU and no measured GEMM peak is on record" in titles


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (builder.run_of(), ("the run has no case", "No case of this run has a result", "There is no curve")),
        (builder.run_of(environment={}), ("unknown: not captured", "The run holds no environment.")),
        (
            builder.run_of(failed=(builder.failure(TWO, "lost_rank", "rank 1 is gone", "", 1),)),
            ("every case that was started failed", "1 failed", "rank 1 is gone", "No log was left.", "Why they failed"),
        ),
        (builder.run_of(pruned=builder.PRUNED), ("every case was pruned before the run", "3 pruned")),
        (run_of(ONE), ("nothing to compare: one case has a result", "every case ran on 1 device")),
        (run_of(ONE, TWO.model_copy(update={"precision": "mixed_bfloat16"})), ("none is the baseline of another",)),
        (
            run_of(ONE, ONE.model_copy(update={"precision": "mixed_bfloat16"})),
            ("mixed_bfloat16 with xla none is fastest", "every case ran on 1 device"),
        ),
    ],
    ids=["zero cases", "no environment", "all failed", "all pruned", "one case", "strangers", "one device"],
)
def test_small_runs_have_sensible_pages(run: Run, words: tuple[str, ...]) -> None:
    text = render(run).text
    for word in words:
        assert word in text, word


def test_nothing_missing_is_shown_as_nan(example_page: str) -> None:
    assert not re.search(r"\b(nan|None|NaT)\b", Page(example_page).text)


def test_other_runs_of_the_folder_are_named() -> None:
    text = Page(scaling_report(run_of(ONE), {}, others=("20250228-0200", "20250227-0200"))).text
    assert "The results folder holds 3 runs; this page shows the newest." in text
    assert "20250227-0200" in text
    assert "No blocks are on record for this case." in text
