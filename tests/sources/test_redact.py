"""What identifies a machine does not survive, and what was one thing stays one thing."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tfscale.suite.sources.identities import expand
from tfscale.suite.sources.redact import Redactor

HEX = "0123456789abcdef"


def redacted(answers: dict[str, Any], **names: list[str]) -> dict[str, Any]:
    redactor = Redactor(**names)
    for key, value in answers.items():
        redactor.learn(key, value)
    return {redactor.key(key): redactor.value(key, value) for key, value in answers.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GPU 0: H (UUID: GPU-af7b61d8-0123-4567-89ab-0123456789ab)", "GPU 0: H (UUID: GPU-0001)"),
        ("GPU-af7b61d8,GPU-af7b61d8-0123-4567-89ab-0123456789ab", "GPU-0001,GPU-0001"),
        ("MIG-af7b61d8-0123-4567-89ab-0123456789ab", "MIG-0001"),
        ("root=UUID=c0ffee00-1111-2222-3333-444455556666", "root=UUID=UUID-0001"),
        ("link/ether 52:54:00:12:34:56 brd ff:ff:ff:ff:ff:fe", "link/ether MAC-0001 brd MAC-0002"),
        ("80:00:02:08:fe:80:00:00:00:00:00:00:50:6b:4b:03:00:c2:c0:a0", "MAC-0001"),
        ("00:00:00:00:00:00", "00:00:00:00:00:00"),
        ("enx525400123456: flags", "enxMAC-0001: flags"),
        ("eth0:10.0.0.1<0> eth1:10.0.0.2<0> eth0:10.0.0.1<0>", "eth0:IPV4-0001<0> eth1:IPV4-0002<0> eth0:IPV4-0001<0>"),
        ("127.0.0.1 0.0.0.0 ::1", "127.0.0.1 0.0.0.0 ::1"),
        ("fe80::5054:ff:fe12:3456%eth0/64", "IPV6-0001%eth0/64"),
        ("fe80:0000:0000:0000:506b:4b03:00c2:c0a0", "IPV6-0001"),
        ("0000:0000:0000:0000:0000:0000:0000:0000", "0000:0000:0000:0000:0000:0000:0000:0000"),
        ("::ffff:10.1.2.3", "IPV6-0001"),
        ("506b:4b03:00c2:c0a0 is 0x506b4b0300c2c0a0", "GUID-0001 is GUID-0001"),
        ('Switch 24 "S-0008f10500201d7c" 0x8f10500201d7c(8f10500201d7c)', 'Switch 24 "S-GUID-0001" GUID-0001(GUID-0001)'),
        ("Base lid: 12 SM lid: 3\n 12    1[  ] ==( 4X )==>  3   7[  ]",
         "Base lid: LID-0001 SM lid: LID-0002\n LID-0001    1[  ] ==( 4X )==>  LID-0002   7[  ]"),
        ("Serial Number: 0324218012345, again 0324218012345", "Serial Number: SERIAL-0001, again SERIAL-0001"),
        ("Serial: 77", "Serial: SERIAL-0001"),
        ("Serial Number : N/A", "Serial Number : N/A"),
        ("/home/alice/x and alice@n7", "/home/USER-0001/x and USER-0001@n7"),
        # What only looks like it.
        ("0000:81:00.0 at 12:34:56 on 2026-02-01 10:00:00", "0000:81:00.0 at 12:34:56 on 2026-02-01 10:00:00"),
        ("driver 550.54.15, 4X 2.5 Gbps, 0x1b000", "driver 550.54.15, 4X 2.5 Gbps, 0x1b000"),
        ("std::vector 1.2.3.4.5 256.1.1.1", "std::vector 1.2.3.4.5 256.1.1.1"),
    ],
)  # fmt: skip
def test_texts(text: str, expected: str) -> None:
    assert redacted({"some text": text}) == {"some text": expected}


def test_host_names_are_learnt_where_they_stand_and_taken_out_everywhere() -> None:
    found = redacted({
        "proc/sys/kernel/hostname": "gpu07.cluster.example.org",
        "facts": {"SLURM_JOB_NODELIST": "gpu[07-09]", "text": "gpu09 says GPU09-ib0 to login.cluster.example.org"},
        "sys/class/infiniband/mlx5_0/node_desc": "gpu07 mlx5_0",
        "iblinkinfo -l": {"rc": 0, "stdout": 'CA: gpu11 mlx5_1:\n 1[ ] "gpu12 HCA-1" ( )', "stderr": ""},
        "sys/fs/cgroup/gpu07_slurmstepd.scope/cpu.max": "max",
    })  # fmt: skip
    text = json.dumps(found).lower()
    assert not [name for name in ("gpu07", "gpu08", "gpu09", "gpu11", "gpu12", "example", "cluster") if name in text]
    assert found["facts"]["text"].split()[0] == found["facts"]["text"].split()[2].removesuffix("-ib0")
    short = found["sys/class/infiniband/mlx5_0/node_desc"].split()[0]
    assert f"sys/fs/cgroup/{short}_slurmstepd.scope/cpu.max" in found


def test_a_host_called_like_a_part_of_the_kernels_paths_does_not_break_them() -> None:
    found = redacted(
        {
            "proc/sys/vm/swappiness": "60",
            "sys/devices/system/node/node1/cpulist": "0-3",
            "motd": "welcome to vm, node1",
        },
        hosts=["vm", "node1"],
    )
    assert found["proc/sys/vm/swappiness"] == "60"
    assert found["sys/devices/system/node/node1/cpulist"] == "0-3"
    assert found["motd"] == "welcome to HOST-0001, HOST-0002"


def test_versions_with_four_numbers_stay() -> None:
    facts = {"packages": {"nvidia-cudnn-cu12": "9.5.1.17"}, "variables": {"X": "9.5.1.17"}}
    found = redacted({"facts": facts})["facts"]
    assert found == {"packages": {"nvidia-cudnn-cu12": "9.5.1.17"}, "variables": {"X": "IPV4-0001"}}


def test_serial_numbers_by_their_field_however_short() -> None:
    found = redacted(
        {"0/serial": "12", "1/serial": 1234567, "sys/class/dmi/id/product_serial": "XY-778899", "t": "XY-778899"}
    )
    assert re.fullmatch(r"SERIAL-\d{4}", found["0/serial"]) and re.fullmatch(r"SERIAL-\d{4}", found["1/serial"])
    assert found["t"] == found["sys/class/dmi/id/product_serial"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("n[01-03,7],login", ["n01", "n02", "n03", "n7", "login"]),
        ("r1[1-2]n3", ["r11n3", "r12n3"]),
        ("h1 h1 h2", ["h1", "h1", "h2"]),
        ("one.example.org", ["one.example.org"]),
        ("", []),
    ],
)
def test_host_lists(text: str, names: list[str]) -> None:
    assert expand(text) == names


def _hex(digits: int) -> st.SearchStrategy[str]:
    return st.text(HEX, min_size=digits, max_size=digits).filter(lambda text: len(set(text)) > 2)


def _groups(text: str, size: int, by: str) -> str:
    return by.join(text[at : at + size] for at in range(0, len(text), size))


uuids = _hex(32).map(lambda t: f"{t[:8]}-{t[8:12]}-{t[12:16]}-{t[16:20]}-{t[20:]}")
octets = st.integers(1, 254)
originals = st.one_of(
    uuids,
    uuids.map("GPU-{}".format),
    uuids.map("MIG-{}".format),
    _hex(12).map(lambda t: _groups(t, 2, ":")),
    _hex(12).map(lambda t: _groups(t.upper(), 2, "-")),
    _hex(16).map("0x{}".format),
    _hex(16).map(lambda t: _groups(t, 4, ":")),
    _hex(32).map(lambda t: _groups(t, 4, ":")),
    st.tuples(octets.filter(lambda n: n != 127), octets, octets, octets).map(lambda t: ".".join(map(str, t))),
)
hosts = st.from_regex(r"[a-z]{3}zq[a-z0-9]{1,6}", fullmatch=True)
plain = st.text(" abc/_=,;<>()\"'", max_size=6)


@settings(deadline=None)  # patterns are compiled anew for every machine
@given(st.lists(originals, min_size=1, max_size=6), st.lists(hosts, max_size=3), plain, plain, st.data())
def test_no_original_survives_and_joins_hold(
    found: list[str], names: list[str], before: str, after: str, data: st.DataObject
) -> None:
    secrets = [*found, *names]
    order = data.draw(st.permutations(secrets * 2))
    text = " ".join(f"{before} {secret} {after}" for secret in order)
    answers: dict[str, Any] = {"out": {"rc": 0, "stdout": text, "stderr": ""}, "list": [{"deep": [text]}]}
    answers |= {f"some/{secret}/key": number for number, secret in enumerate(secrets)}
    answers |= {f"facts{number}/hostname": name for number, name in enumerate(names)}
    result = redacted(answers)
    written = json.dumps(result).lower()
    for secret in secrets:
        assert secret.lower() not in written
    labels = dict(
        zip(order, re.findall(r"(?:GPU|MIG|UUID|MAC|GUID|IPV[46]|HOST)-\d{4}", result["out"]["stdout"]), strict=True)
    )
    assert [labels[secret] for secret in order] == re.findall(r"[A-Z0-9]+-\d{4}", result["list"][0]["deep"][0])
    for secret in secrets:
        assert f"some/{labels[secret]}/key" in result
    assert len(set(labels.values())) == len({_identity(secret) for secret in labels})


def _identity(secret: str) -> str:
    if secret[:4] in ("GPU-", "MIG-"):
        return secret[:12]
    kind = "guid" if secret.startswith("0x") or secret.count(":") == 3 else "mac" if len(secret) == 17 else "other"
    digits = secret.lower().removeprefix("0x").replace(":", "").replace("-", "")
    return f"{kind} {digits.lstrip('0') if kind == 'guid' else secret if kind == 'other' else digits}"
