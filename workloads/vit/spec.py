"""Vision Transformer image classification: shapes, parameters and synthetic data.

Dosovitskiy et al., arXiv:2010.11929.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tfscale.suite.workload import Feature, Flops, OptimizerSpec
from tfscale.workloads import presets
from tfscale.workloads.standard import StandardWorkload
from tfscale.workloads.vit import flops

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class VitShape:
    """Sizes of one preset; `image_size` and `patch_size` are side lengths in pixels."""

    image_size: int
    patch_size: int
    channels: int
    layers: int
    hidden: int
    heads: int
    intermediate: int
    classes: int
    dropout: float

    @property
    def patches(self) -> int:
        return (self.image_size // self.patch_size) ** 2

    @property
    def patch_values(self) -> int:
        return self.patch_size * self.patch_size * self.channels

    @property
    def tokens(self) -> int:
        """Patches and the class token."""
        return self.patches + 1


class Vit(StandardWorkload):
    """Vision Transformer training as a workload."""

    name = "vit"
    sample = "image"
    model_module = "tfscale.workloads.vit.model"
    data_module = "tfscale.workloads.vit.data"
    presets: Mapping[str, VitShape] = presets.read(__file__, VitShape)
    optimizer = OptimizerSpec("adamw", 5e-4, {"weight_decay": 0.05}, clip_global_norm=1.0)

    def parameters(self, preset: str) -> int:
        s: VitShape = self.shape(preset)
        h, norm = s.hidden, 2 * s.hidden
        embeddings = (s.patch_values * h + h) + h + s.tokens * h
        block = 4 * (h * h + h) + (h * s.intermediate + s.intermediate) + (s.intermediate * h + h) + 2 * norm
        return embeddings + s.layers * block + norm + (h * s.classes + s.classes)

    def flops(self, preset: str, batch: int) -> Flops:
        return flops.training_step(self.shape(preset), batch)

    def features(self, preset: str) -> dict[str, Feature]:
        """`image` is channels last, normalised to about zero mean and unit variance."""
        s: VitShape = self.shape(preset)
        return {"image": Feature((s.image_size, s.image_size, s.channels), "float32"), "label": Feature((), "int32")}

    def synthetic(
        self, preset: str, *, seed: int, index: int, batch: int, options: Mapping[str, Any]
    ) -> "dict[str, NDArray[Any]]":
        from tfscale.workloads.vit.synthetic import global_batch

        return global_batch(self.shape(preset), seed, index, batch)


VIT = Vit()
