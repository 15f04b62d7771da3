"""The peak table against figures read off the vendor's datasheets by hand."""

import pytest

from tfscale.suite.analysis.peaks import of_record, published


@pytest.mark.parametrize(
    ("device", "math", "tflops"),
    [
        ("NVIDIA A100-SXM4-80GB", "bfloat16", 312),
        ("NVIDIA A100-SXM4-80GB", "tf32", 156),
        ("NVIDIA A100 80GB PCIe", "float32", 19.5),
        ("Tesla V100-SXM2-16GB", "float16", 125),
        ("NVIDIA H100 80GB HBM3", "bfloat16", 989.4),
        ("NVIDIA H100 PCIe", "bfloat16", 756),
        ("NVIDIA L4", "tf32", 60),
    ],
)
def test_dense_peaks(device: str, math: str, tflops: float) -> None:
    peak = published(device, math)
    assert peak is not None
    assert peak.flops_per_s == pytest.approx(tflops * 1e12)
    assert peak.source


@pytest.mark.parametrize(
    ("device", "math"),
    [
        ("Tesla V100-SXM2-16GB", "bfloat16"),
        ("NVIDIA L40S", "float16"),
        ("NVIDIA A1000", "float32"),
        ("Some CPU", "float32"),
    ],
)
def test_unknown_is_none(device: str, math: str) -> None:
    assert published(device, math) is None


def test_a_record_has_a_peak_only_for_gpus_of_one_kind_and_a_known_math() -> None:
    a100, h100 = {"name": "NVIDIA A100-SXM4-80GB"}, {"name": "NVIDIA H100 PCIe"}
    assert of_record({"gpus": [a100, a100]}, {"math": "tf32"}).flops_per_s == pytest.approx(156e12)  # type: ignore[union-attr]
    assert of_record({"gpus": [a100, h100]}, {"math": "tf32"}) is None
    assert of_record({"gpus": [a100]}, {"math": None}) is None
    assert of_record({"gpus": []}, {"math": "float32"}) is None
