"""Names against the rules that Kubernetes and registries publish: each rule met, missed by one, and attacked."""

import pytest

from tfscale.suite.launchers.kubernetes import names

INJECTIONS = ["a\nb", "a\n", "a: b", "a b", "a'b", 'a"b', "a#b", "$(A)", "`a`", "a;b", "../a", "ä", "a\0", "{a}"]


@pytest.mark.parametrize("value", ["a", "0", "a-b", "a" * 63, "n9"])
def test_labels(value: str) -> None:
    assert names.label(value) == value


@pytest.mark.parametrize("value", ["", "-a", "a-", "A", "a.b", "a_b", "a" * 64, *INJECTIONS])
def test_no_labels(value: str) -> None:
    with pytest.raises(ValueError, match="RFC 1123"):
        names.label(value)


def test_a_set_is_a_service_too_and_starts_with_a_letter() -> None:
    assert names.starting_with_letter("a1") == "a1"
    with pytest.raises(ValueError, match="RFC 1035"):
        names.starting_with_letter("1a")


@pytest.mark.parametrize("value", ["a.b", "a", ("a" * 62 + ".") * 4])
def test_subdomains(value: str) -> None:
    assert names.subdomain(value.strip(".")) == value.strip(".")


@pytest.mark.parametrize("value", ["a..b", ".a", "a.", "A.b", ("a" * 63 + ".") * 3 + "a" * 62, *INJECTIONS])
def test_no_subdomains(value: str) -> None:
    with pytest.raises(ValueError, match="RFC 1123"):
        names.subdomain(value)


@pytest.mark.parametrize("value", ["cpu", "nvidia.com/gpu", "rdma/hca_shared_devices_a", "A.b_c-D", "a" * 63])
def test_keys(value: str) -> None:
    assert names.label_key(value) == value


@pytest.mark.parametrize("value", ["", "/gpu", "nvidia.com/", "a/b/c", "Nvidia.com/gpu", "a" * 64, "_a", *INJECTIONS])
def test_no_keys(value: str) -> None:
    with pytest.raises(ValueError):
        names.label_key(value)


@pytest.mark.parametrize("value", ["", "tpu-v6e-slice", "4x4", "A_b.c", "a" * 63])
def test_values(value: str) -> None:
    assert names.label_value(value) == value


@pytest.mark.parametrize("value", ["a" * 64, "-a", "a-", "a/b", *INJECTIONS])
def test_no_values(value: str) -> None:
    with pytest.raises(ValueError):
        names.label_value(value)


@pytest.mark.parametrize(
    ("value", "text"), [(16, "16"), (0.5, "0.5"), ("500m", "500m"), ("64Gi", "64Gi"), ("1.5M", "1.5M")]
)
def test_quantities(value: object, text: str) -> None:
    assert names.quantity(value) == text


@pytest.mark.parametrize("value", ["", "-1", "64gb", "64 Gi", "Gi", "1e3\n", "1..5", *INJECTIONS])
def test_no_quantities(value: str) -> None:
    with pytest.raises(ValueError, match="no quantity"):
        names.quantity(value)


DIGEST = "sha256:" + "0a" * 32


@pytest.mark.parametrize(
    "value",
    [
        "tfscale:1.0",
        "registry.example/ml/tfscale:1.0",
        "registry.example:5000/tfscale:v1",
        f"tfscale@{DIGEST}",
        f"registry.example/ml/tf--scale:latest@{DIGEST}",
    ],
)
def test_images(value: str) -> None:
    assert names.image(value) == value


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("tfscale", "not pinned"),
        ("tfscale:latest", "not pinned"),
        ("registry.example:5000/tfscale", "not pinned"),
        ("Tfscale:1", "no image"),
        ("tfscale:1@sha256:0a", "no image"),
        ("tfscale:", "no image"),
        ("/tfscale:1", "no image"),
        ("a/" * 300 + "b:1", "no image"),
        *((f"tfscale:1{bad}", "no image") for bad in ("\n", " ", "\nhostPID: true", ";x", "$(A)", "'")),
    ],
)
def test_no_images(value: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        names.image(value)


def test_a_long_image_is_refused_without_a_long_search() -> None:
    # A pattern that tries every way to part this would not come back.
    with pytest.raises(ValueError, match="no image"):
        names.image("a" * 490 + "!")
