"""What Kubernetes and container registries accept as names, so that a bad one is told before `kubectl apply`.

Rules: https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ (RFC 1123 and RFC 1035 names),
.../working-with-objects/labels/ (keys and values), https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/,
https://github.com/distribution/reference (images). Each function returns its value, or raises ValueError.
"""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_WORD = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_QUANTITY = re.compile(r"[0-9]+(\.[0-9]+)?(m|k|[MGTPE]|[KMGTPE]i)?")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?"
_IMAGE = re.compile(
    rf"(?:{_HOST}(?::[0-9]{{1,5}})?/)?{_PART}(?:/{_PART})*"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
LONGEST_IMAGE = 500


def label(value: str) -> str:
    """A namespace, or one part of a host name."""
    if not _LABEL.fullmatch(value):
        raise ValueError(
            f"{value!r}: up to 63 letters a-z, digits and - are allowed, with no - at either end (RFC 1123)"
        )
    return value


def starting_with_letter(value: str) -> str:
    """The name of a set: its service and its jobs have it too, and those start with a letter (RFC 1035)."""
    if label(value)[0].isdigit():
        raise ValueError(f"{value!r}: it is also the name of a service, which starts with a letter (RFC 1035)")
    return value


def subdomain(value: str) -> str:
    """The name of a Secret, a claim, a class."""
    if len(value) > 253 or not all(_LABEL.fullmatch(part) for part in value.split(".")):
        raise ValueError(f"{value!r}: parts of a-z, 0-9 and - are allowed, with dots between them (RFC 1123)")
    return value


def label_key(value: str) -> str:
    """The key of a label, an annotation, a node's label, or the name of a resource: `name` or `domain/name`."""
    prefix, slash, name = value.rpartition("/")
    if slash:
        subdomain(prefix)
    if not _LABEL_WORD.fullmatch(name):
        raise ValueError(f"{value!r}: a key is NAME or DOMAIN/NAME, up to 63 letters, digits, - _ and . in NAME")
    return value


def label_value(value: str) -> str:
    """The value of a label."""
    if value and not _LABEL_WORD.fullmatch(value):
        raise ValueError(f"{value!r}: up to 63 letters, digits, - _ and . are allowed, a letter or digit at either end")
    return value


def quantity(value: Any) -> Any:
    """`16`, `500m` or `64Gi`, as text; other things are left for pydantic to refuse."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str) and not _QUANTITY.fullmatch(value):
        raise ValueError(f"{value!r} is no quantity; write 16, 500m or 64Gi")
    return value


def image(value: str) -> str:
    """The reference of an image that stays the same: by digest, or by a tag that is not `latest`."""
    match = _IMAGE.fullmatch(value) if len(value) <= LONGEST_IMAGE else None
    if match is None:
        raise ValueError(f"{value!r} is no image; write registry.example/team/tfscale:1.0, or ...@sha256:DIGEST")
    if match["digest"] is None and match["tag"] in (None, "latest"):
        raise ValueError(f"{value!r} is not pinned; name a tag other than latest, or a digest, or numbers mean nothing")
    return value


Label = Annotated[str, AfterValidator(label)]
SetName = Annotated[str, AfterValidator(starting_with_letter)]
Subdomain = Annotated[str, AfterValidator(subdomain)]
LabelKey = Annotated[str, AfterValidator(label_key)]
LabelValue = Annotated[str, AfterValidator(label_value)]
Quantity = Annotated[str, BeforeValidator(quantity)]
Image = Annotated[str, AfterValidator(image)]
