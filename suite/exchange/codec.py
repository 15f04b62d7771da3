"""What an exchange costs a replica beside the link: its encoding and decoding, timed over a wire that moves nothing.

In a step these lie between the backward pass and the collectives. Here the exchange works on made-up gradients of the
case's own shapes, in an instance of its own, once up to what it hands to the wire and once to the end: the difference is
decoding. What an exchange computes between two collectives (PowerSGD's second product) counts as encoding.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from tfscale.suite.exchange.base import Exchange, create
from tfscale.suite.exchange.shapes import GradientShape, assembled, made_up, specs
from tfscale.suite.exchange.stillwire import Handed, StillSession, StillWire

WARM, LEAST, REPEATS = 2, 3, 9
LONGEST_S = 10.0
"""Calls are repeated no more after so many seconds, but at least LEAST times."""
Call = Callable[[], Any]


@dataclass(frozen=True)
class Cost:
    """Of one step on one replica. Seconds are medians, None with `reason` where they could not be had."""

    exact: bool
    none_bytes: int
    """What `none` hands to collectives for the same gradients."""
    handed: dict[str, int]
    """Bytes by kind of collective (sum, gather, all_to_all), those within a group of replicas included."""
    encode_s: float | None
    decode_s: float | None
    repeats: int
    reason: str | None = None


def cost(
    name: str, shapes: Sequence[GradientShape], variables: Sequence[Any], session: StillSession, device: str
) -> Cost:
    """Time the exchange `name` on `device`. Whatever it raises is the reason why there are no times."""
    exchange, handed = create(name), Handed()
    with tf.device(device):
        plain = sum(payload("none", shapes, session).values())
        try:
            exchange.build(session, variables)  # type: ignore[arg-type]  # it asks for no more than this one has
            both = calls(exchange, session, shapes, handed)
            if handed.conditional:
                reason = f"{name} sends something in some steps only: encoding takes no one time"
                return Cost(exchange.exact, plain, dict(handed.bytes), None, None, 0, reason)
            encode, whole = timed(*both)
        except Exception as error:  # a user's exchange may want what a still wire has not
            reason = f"{name} does not run without its collectives: {type(error).__name__}: {error}"
            return Cost(exchange.exact, plain, dict(handed.bytes), None, None, 0, reason)
    rest = float(np.median(np.subtract(whole, encode)))
    told = rest > 0
    return Cost(
        exact=exchange.exact,
        none_bytes=plain,
        handed=dict(handed.bytes),
        encode_s=float(np.median(encode)),
        decode_s=rest if told else None,
        repeats=len(encode),
        reason=None if told else "decoding takes too little to be told apart from encoding",
    )


def payload(name: str, shapes: Sequence[GradientShape], session: StillSession) -> dict[str, int]:
    """Bytes by kind of collective that the exchange `name` hands over for gradients of `shapes`; it is traced, never run."""
    exchange, handed = create(name), Handed()
    exchange.build(session, [])  # type: ignore[arg-type]

    def step(*given: Any) -> Any:
        wire = StillWire(session.replicas, session.first_replica, handed)
        return exchange.reduce(wire, assembled(shapes, given), tf.zeros([4]))[1]

    tf.function(step, autograph=False).get_concrete_function(*specs(shapes))
    return handed.bytes


def calls(
    exchange: Exchange, session: StillSession, shapes: Sequence[GradientShape], handed: Handed
) -> tuple[Call, Call]:
    """One call that computes what is handed to the wire, and one of the whole; each gives a scalar to wait for."""

    def step(given: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        handed.clear()
        wire = StillWire(session.replicas, session.first_replica, handed)
        means, riders = exchange.reduce(wire, assembled(shapes, given), tf.zeros([4]))
        exchange.settle(0, tf.zeros([]))
        parts = [(mean.values, mean.indices) if hasattr(mean, "indices") else (mean,) for mean in means]
        return list(handed.tensors), [*(tensor for part in parts for tensor in part), riders]

    def encode(*given: Any) -> tuple[list[Any], Any]:
        sent, _ = step(given)
        return sent, _after(sent)

    def whole(*given: Any) -> tuple[list[Any], Any]:
        _, ends = step(given)
        return ends, _after(ends)

    tensors = made_up(shapes)
    traced = tf.function(whole, autograph=False).get_concrete_function(*specs(shapes))
    # A tf.function would keep every assignment, and with it the decoding that an error feedback is made of. This one is
    # cut back to what leads to the wire; the exchange's state was made by the trace before.
    wrapped = tf.compat.v1.wrap_function(encode, specs(shapes))
    cut = wrapped.prune(wrapped.inputs[: len(tensors)], wrapped.structured_outputs)
    # Called from a function of its own: called directly, it would look at its arguments for longer than it runs.
    called = tf.function(lambda *given: cut(*given), autograph=False).get_concrete_function(*specs(shapes))
    return lambda: called(*tensors)[1], lambda: traced(*tensors)[1]


def _after(tensors: Sequence[Any]) -> Any:
    """A scalar that is there once all `tensors` are."""
    with tf.control_dependencies(list(tensors)):
        return tf.identity(tf.zeros([]))


def timed(encode: Call, whole: Call) -> tuple[list[float], list[float]]:
    """Seconds of each of several calls, in turn so that both see the same machine, after some to warm up."""
    for _ in range(WARM):
        encode().numpy()
        whole().numpy()
    found: tuple[list[float], list[float]] = ([], [])
    began = time.perf_counter()
    while len(found[0]) < REPEATS and (len(found[0]) < LEAST or time.perf_counter() - began < LONGEST_S):
        for call, seconds in zip((encode, whole), found, strict=True):
            start = time.perf_counter()
            call().numpy()
            seconds.append(time.perf_counter() - start)
    return found
