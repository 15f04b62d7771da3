"""A case made ready to train in one rank: model, step, input and runner, and what is known of them afterwards."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from tfscale.suite.exchange.base import create as create_exchange
from tfscale.suite.plan import RankPlan
from tfscale.suite.rankfiles import LOG, SelfCheck
from tfscale.suite.spec import Case
from tfscale.suite.strategies.base import Session, TrainRunner
from tfscale.suite.training import feed, precision, xla
from tfscale.suite.training.optimizers import Update, scaled_learning_rate
from tfscale.suite.training.step import StepOptions, TrainStep
from tfscale.suite.workload import BuildContext, Workload


class Job:
    """Builds everything that a case trains with; call `build` under no scope, it enters the session's."""

    self_check = SelfCheck(passed=None, detail="not made")
    runner: TrainRunner

    def __init__(
        self, plan: RankPlan, session: Session, workload: Workload, proof: Mapping[str, Any] | None = None
    ) -> None:
        """`proof`: what was shown of the arithmetic before the runtime was touched (training/onednn.py)."""
        self.plan = plan
        self._proof = dict(proof or {})
        self.session = session
        self._workload = workload

    def build(self) -> None:
        """Model, slots and feed under the strategy's scope, and the runner, not yet traced."""
        case = self.plan.case
        self.session.racks = self.plan.racks
        with self.session.scope():
            context = BuildContext(
                seed=case.seed,
                recompute=case.recompute,
                dropout=self.plan.measure.dropout,
                embedding_variable=self.session.variable,
            )
            model = self._workload.build(case.preset, context)
            self.step = TrainStep(model, self.session, create_exchange(case.exchange), self.options())
        self.feed = feed.create(self._workload, case, self.plan.first_replica, self.plan.data_directory)
        if self.plan.stretch is not None and self.plan.stretch.resume_step is not None:
            self.feed.go_on_after(self.plan.stretch.resume_step)
        self.runner = self.session.runner(self.step, self.feed, case.steps_per_call)

    def options(self) -> StepOptions:
        case = self.plan.case
        optimizer = self._workload.optimizer
        factor = self.session.averaged * case.micro_batches * self.plan.batch_growth
        return StepOptions(
            optimizer=optimizer,
            learning_rate=scaled_learning_rate(optimizer.learning_rate, case.learning_rate_rule, factor),
            accumulation=case.micro_batches,
            cluster=case.xla == "cluster",
            loss_scaling=case.precision == "mixed_float16",
            update=update_of(case, self.session),
        )

    @property
    def parameters(self) -> int:
        """Trainable parameters of one copy of the model."""
        return sum(int(variable.shape.num_elements()) for variable in self.step.variables)

    def effective(self) -> dict[str, Any]:
        """What was really used, read back; a None has `<name>_reason` beside it."""
        case = self.plan.case
        log = self._log()
        options = self.options()
        return {
            **precision.effective(case.precision, self.plan.accelerator),
            **self._proof,
            **xla.effective(case.xla, self.runner.clusters(), log),
            **self.session.effective(log),
            **self.feed.effective(),
            **self.step.exchange.told(),
            "update": options.update,
            "learning_rate": options.learning_rate,
            "tensorflow": tf.__version__,
            "keras": keras.__version__,
        }

    def _log(self) -> str | None:
        """The rank's log so far. What the C++ side logs gets there without buffering."""
        try:
            return (Path(self.plan.directory) / LOG).read_text(errors="replace")
        except FileNotFoundError:
            return None

    @property
    def loss_scale(self) -> float | None:
        """The loss scale now, or None where there is none."""
        scale = self.step.loss_scale
        return float(self.session.components(scale.scale)[0].numpy()) if scale else None


def update_of(case: Case, session: Session) -> Update:
    """How dense gradients are applied. Under xla auto TensorFlow clusters the update by itself, so it stays plain."""
    return "kernels" if case.xla == "auto" else session.asks_update
