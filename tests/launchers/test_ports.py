"""Free ports: distinct, really free, outside the kernel's range for outgoing connections."""

import socket

import pytest

from tfscale.suite.launchers import ports


def test_ports_are_distinct_free_and_not_ephemeral() -> None:
    found = ports.free_ports(20)
    assert len(set(found)) == 20
    assert all(ports.is_free(port) for port in found)
    assert max(found) < ports._ephemeral_low() or ports._ephemeral_low() < ports._LOWEST + 1000


def test_a_bound_port_is_not_free() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
        assert not ports.is_free(port)
        assert not ports.is_listened_on(port)
        server.listen()
        assert ports.is_listened_on(port)


def test_taken_ports_are_avoided() -> None:
    taken = set(ports.free_ports(10))
    assert not taken & set(ports.free_ports(10, taken))


def test_no_port_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "is_free", lambda port: False)
    with pytest.raises(ports.NoPortError, match="no 2 free ports"):
        ports.free_ports(2)
