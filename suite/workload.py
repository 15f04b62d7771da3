"""What a workload is: a spec without TensorFlow (shapes, parameters, FLOPs) that names the module holding its model.

A workload's entry point names a `Workload`. Planning, listing and dry runs read only that; a rank imports
`model_module`, whose `build(shape, context)` returns a `Model`, and `data_module` for input from files.
"""

import contextlib
import functools
import importlib
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tfscale.suite import registry

if TYPE_CHECKING:
    # Importing numpy takes a sixth of what a quick command may take, and only ranks make batches.
    import numpy as np
    from numpy.typing import NDArray

Batch = dict[str, Any]
"""Feature name -> tensor with the batch as its first dimension."""


@dataclass(frozen=True)
class Feature:
    """One named input of a sample: its shape without the batch dimension, and its dtype name."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True)
class Flops:
    """Floating-point operations of matmul-class operations for one batch; one multiply-add counts 2."""

    forward: int
    backward: int

    @property
    def total(self) -> int:
        return self.forward + self.backward


@dataclass(frozen=True)
class OptimizerSpec:
    """The update rule of a workload. `hyper` holds the keyword arguments of its function in training/optimizers.py."""

    name: Literal["sgd", "adagrad", "adamw"]
    learning_rate: float
    hyper: Mapping[str, float] = field(default_factory=dict)
    clip_global_norm: float | None = None


@dataclass(frozen=True)
class BuildContext:
    """What the model needs to know of its case. The Keras dtype policy is already set when `build` runs."""

    seed: int
    recompute: bool = False
    dropout: float | None = None
    """Overrides the preset's dropout rate; 0.0 for comparisons of the same maths."""
    embedding_variable: Callable[..., Any] | None = None
    """Replaces `tf.Variable` for embedding tables where a strategy shards them."""


class Model(Protocol):
    """A built model. `variables` are the trainable ones, in a fixed order, the same on every rank."""

    variables: Sequence[Any]

    def loss(self, batch: Batch, training: bool) -> Any:
        """Mean loss over the batch, a float32 scalar tensor. Pure: no variable is assigned."""


class Workload(ABC):
    """One workload and its presets. Importing the module that defines it must not import TensorFlow or Keras."""

    name: str
    sample: str
    """What one sample is called in reports: sequence, image, sample."""
    model_module: str
    data_module: str | None = None
    presets: Mapping[str, Any]
    """Preset name -> shape dataclass of this workload, smallest first."""
    optimizer: OptimizerSpec

    def shape(self, preset: str) -> Any:
        if preset not in self.presets:
            raise registry.UnknownNameError(f"preset of {self.name}", preset, list(self.presets))
        return self.presets[preset]

    @abstractmethod
    def parameters(self, preset: str) -> int:
        """Number of trainable parameters, by closed form."""

    @abstractmethod
    def flops(self, preset: str, batch: int) -> Flops:
        """Analytic FLOPs of one training step on `batch` samples (no recomputation, no optimiser)."""

    @abstractmethod
    def features(self, preset: str) -> dict[str, Feature]:
        """The features of one sample, labels included."""

    @abstractmethod
    def synthetic(
        self, preset: str, *, seed: int, index: int, batch: int, options: Mapping[str, Any]
    ) -> "dict[str, NDArray[Any]]":
        """The synthetic *global* batch number `index`, a pure function of its arguments (numpy, batch first).

        Replica r of n takes rows [r * batch / n, (r + 1) * batch / n), so the same seed gives the same set of
        samples on every rank layout.
        """

    def synthetic_pool(self, preset: str) -> int:
        """Distinct synthetic batches that are cycled through: 1 where values cannot change the speed."""
        return 1

    def sample_data(self, preset: str, directory: Path, seed: int) -> Path:
        """A small data folder inside `directory`, made from the seed unless it is there: for files input without a path.

        Raises ValueError where the workload has none.
        """
        raise ValueError(f"workload {self.name} has no sample of its data: name a folder in input.path")

    def build(self, preset: str, context: BuildContext) -> Model:
        """Import the model module (TensorFlow) and build the model under the current scope and dtype policy."""
        model: Model = importlib.import_module(self.model_module).build(self.shape(preset), context)
        return model


def load(name: str) -> Workload:
    """The workload registered as `name`, or the one that `package.module:factory` names (an instance or a callable).

    Raises ValueError for whatever goes wrong: a user's module may raise anything, and what it prints goes to stderr.
    """
    try:
        with contextlib.redirect_stdout(sys.stderr):
            found = registry.load("workloads", name)
            workload = found if isinstance(found, Workload) else found()
    except registry.UnknownNameError:
        raise
    except (Exception, SystemExit) as error:
        raise ValueError(f"workload {name!r} cannot be loaded: {type(error).__name__}: {error}") from error
    if not isinstance(workload, Workload):
        raise ValueError(f"workload {name!r} is a {type(workload).__name__}, not a tfscale.suite.workload.Workload")
    return workload


@functools.cache
def check(name: str, preset: str) -> None:
    """Ask a workload what planning and reports will ask, before anything is launched. Raises ValueError."""
    workload = load(name)
    workload.shape(preset)
    answers: dict[str, tuple[Callable[[], Any], type]] = {
        "parameters": (lambda: workload.parameters(preset), int),
        "flops": (lambda: workload.flops(preset, 1), Flops),
        "features": (lambda: workload.features(preset), dict),
    }
    for method, (ask, wanted) in answers.items():
        try:
            answer = ask()
        except Exception as error:
            raise ValueError(f"workload {name!r}: {method} raises {type(error).__name__}: {error}") from error
        if not isinstance(answer, wanted):
            raise ValueError(
                f"workload {name!r}: {method} gives {answer!r}, a {type(answer).__name__}; {wanted.__name__} is wanted"
            )


def random(seed: int, *words: int) -> "np.random.Generator":
    """A counter-based generator for (seed, words): the same numbers on every machine and rank."""
    import numpy as np

    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, *words])))
