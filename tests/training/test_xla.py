"""What selects XLA, and what is accepted as proof of it."""

import pytest

from tfscale.suite.training import xla

COMPILED = "I0000 device_compiler.h:208] Compiled cluster using XLA!  This line is logged at most once for the lifetime"


def test_only_auto_sets_flags() -> None:
    assert xla.environment("none") == xla.environment("cluster") == {}
    assert xla.environment("auto", "--tf_xla_min_cluster_size=2")["TF_XLA_FLAGS"].startswith(
        "--tf_xla_min_cluster_size=2 "
    )


def test_cluster_needs_a_marked_function() -> None:
    assert xla.effective("cluster", 2, None) == {"xla": "cluster", "xla_clusters": 2}
    assert xla.effective("cluster", 0, COMPILED)["xla"] is None


def test_auto_needs_the_log_line() -> None:
    assert xla.effective("auto", 0, COMPILED) == {"xla": "auto"}
    assert "did not log" in xla.effective("auto", 0, "nothing")["xla_reason"]
    assert xla.effective("auto", 0, None)["xla"] is None


def test_none_says_so_when_something_was_compiled() -> None:
    assert xla.effective("none", 0, COMPILED) == {"xla": "none"}
    assert xla.effective("none", 1, None)["xla"] == "cluster"


@pytest.mark.tensorflow
def test_functions_marked_for_compilation_are_counted() -> None:
    tf = pytest.importorskip("tensorflow")
    model = tf.function(lambda x: x * 2.0, jit_compile=True)

    def update_by_formula(x: object) -> object:
        return x

    update = tf.function(update_by_formula, jit_compile=True)
    outer = tf.function(lambda x: update(model(x)) + 1.0).get_concrete_function(tf.TensorSpec([2]))
    assert xla.count_must_compile(outer.graph, "by_formula", "coder") == 1
    assert xla.count_must_compile(outer.graph, "nothing") == 2
