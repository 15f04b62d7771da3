"""What identifies a machine, its owner or its network, and how such a thing looks in text. Patterns only."""

import ipaddress
import re

KEPT = frozenset({"127.0.0.1", "::1", "0.0.0.0", "::"})
"""Addresses that say nothing about a machine; an unset GID is `::` written in full."""
NOBODY = frozenset({"localhost", "localhost.localdomain", "localdomain", "none", "unknown", "(none)", "n/a", "null"})
"""What stands where a host name could and is none."""
EVERYBODY = frozenset({"root", "user", "nobody"})

_HEX = "[0-9a-fA-F]"
_UUID = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
_V4 = r"(?:\d{1,3}\.){3}\d{1,3}"
PATTERNS: tuple[tuple[str, str], ...] = (
    # A prefix of a card's UUID is as good as the UUID for CUDA_VISIBLE_DEVICES, so both are one thing.
    ("gpu", rf"(?<!\w)GPU-{_HEX}{{8}}(?:-{_HEX}{{4}}){{0,3}}(?:-{_HEX}{{12}})?(?!{_HEX})"),
    ("mig", rf"(?<!\w)MIG-{_HEX}{{8}}(?:-{_HEX}{{4}}){{0,3}}(?:-{_HEX}{{12}})?(?!{_HEX})"),
    ("uuid", rf"(?<!{_HEX}){_UUID}(?!{_HEX})"),
    (
        "mac",
        rf"(?<![\w:-])(?:(?:{_HEX}{{2}}:){{5,19}}|(?:{_HEX}{{2}}-){{5}}){_HEX}{{2}}(?![\w:-])|(?<=enx){_HEX}{{12}}(?!\w)",
    ),
    # The fabric's tools print GUIDs with and without leading zeros, after a letter, and in brackets.
    (
        "guid",
        rf"(?<![\w:])(?:0x{_HEX}{{11,16}}|(?:{_HEX}{{4}}:){{3}}{_HEX}{{4}})(?![\w:])|"
        rf"(?<=\b[SHR]-){_HEX}{{16}}\b|(?<=\(){_HEX}{{11,16}}(?=\))",
    ),
    ("ipv6", rf"(?<![\w:])(?:{_HEX}{{0,4}}:){{2,7}}(?:{_V4}|{_HEX}{{1,4}})?(?![\w:])(?!\.\d)"),
    ("ipv4", rf"(?<![\w.]){_V4}(?![\w]|\.\d)"),
)
"""Kind -> pattern, in the order in which they are tried at one place."""
LABELS = {
    "gpu": "GPU",
    "mig": "MIG",
    "uuid": "UUID",
    "ipv6": "IPV6",
    "guid": "GUID",
    "mac": "MAC",
    "ipv4": "IPV4",
    "host": "HOST",
    "user": "USER",
    "serial": "SERIAL",
    "lid": "LID",
}

SERIAL_LINE = re.compile(r"(?i)\bserial(?:[ _]?(?:number|no\.?|num))?\s*[:=]\s*([^\s,;]+)")
HOST_LINE = re.compile(r"(?i)\b(?:host ?name|node ?name)\s*[:=]\s*([^\s,;\"']+)")
FABRIC_KEY = re.compile(r"^(?:ib[a-z]+|perfquery|smpquery|sminfo|opensm)\b|/node_desc$")
DESCRIPTION = re.compile(
    r"\"\s*(?:MF0;)?([A-Za-z][\w.-]*)[^\"]*\"|^(?:CA|Switch|Router):\s+(?:0x\S+\s+)?([A-Za-z][\w.-]*?)(?=[\s:])[^:]*:|"
    r"^([A-Za-z][\w.-]*) (?:HCA-\d+|mlx\d+_\d+|hfi\d+_\d+)$",
    re.MULTILINE,
)
"""Node descriptions in what the fabric's tools print: the name of a host or switch first, then its adapter or model."""
MODELS = re.compile(r"(?i)^(?:mellanox|switch|switchx|switchib|quantum|infiniscale.*|connectx.*|[shr]-[0-9a-f]{16})$")
"""First words of the descriptions of switches that nobody gave a name."""
LID = re.compile(r"(?:(?<=[Ll]id )|(?<=[Ll]id: )|(?<=LID: ))(?:0x[0-9a-f]+|\d+)\b|\b\d+(?=\s+\d+\[)")
"""Where a number is a LID: after the word, and before a port number in the rows of iblinkinfo."""
LID_LINE = re.compile(r"\b(?:SM)?Lid:\.+(\d+)")
HOME = re.compile(r"(?:(?<=/home/)|(?<=/Users/)|(?<=^home/)|(?<=\bexport/home/))([^/\s:,'\"]+)")
SERIAL_KEY = re.compile(r"(?i)(?:^|[/_])(?:serial|serial_number|product_serial|board_serial|chassis_serial|asset_tag)$")
HOST_KEY = re.compile(
    r"(?i)(?:^|[/_.])(?:hostname|host_?name|host|hosts|node_?name|nodelist|job_nodelist|mcpu_hosts|domainname|cluster_name|pbs_jobid)$"
)
LID_KEY = re.compile(r"(?:^|/)(?:sm_)?lid$")
LEFT_OUT = re.compile(
    r"^proc/(?:[^/]+/)?(?:environ|maps|smaps|mountinfo|mounts)$|^proc/[^/]+/cmdline$|"
    r"^proc/(?:self/)?net/(?:tcp|udp|raw|route|arp|if_inet|ipv6_route|fib)\w*$"
)
"""Files that are tables of addresses, or hold what users typed, are not written at all."""
VERSION_KEY = re.compile(r"(?i)(?:version|fw_ver|osrelease|packages/[^/]+|tensorflow_build/[^/]+|firmware|driver)$")
"""Four numbers with dots are a version there (cuDNN's are), not an address."""
KERNEL_PATH = re.compile(r"^(?:proc/(?:sys|net|driver|self|\w+$)|sys/(?:devices|class|bus|kernel|module|block)|etc/)")
"""Paths whose whole parts are the kernel's own words, though a host may be called like one of them (`node1`, `vm`)."""


def is_address(kind: str, text: str) -> bool:
    """Whether what a pattern found is what it looks like, and not one of KEPT."""
    if kind not in ("ipv4", "ipv6"):
        return bool(set(text.lower()) - set("0:-x"))  # all zeros: not set
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    return str(address) not in KEPT


def identity(kind: str, text: str) -> str:
    """What makes two texts the same thing: a GUID in both of its forms, a UUID and its prefix, any case."""
    if kind in ("gpu", "mig"):
        return text[4:12].lower()
    if kind == "guid":
        return text.lower().removeprefix("0x").replace(":", "").lstrip("0")
    if kind == "mac":
        return re.sub("[:-]", "", text.lower())
    if kind == "ipv6":
        return str(ipaddress.ip_address(text))
    return text.lower()


def expand(hosts: str) -> list[str]:
    """`gpu[01-03,7],login` as its names, Slurm's hostlist format with one bracket a name."""
    names = []
    for part in re.findall(r"[^,\[\s]+(?:\[[^\]]*\][^,\s]*)?", hosts):
        head, bracket, rest = part.partition("[")
        if not bracket:
            names.append(head)
            continue
        inside, _, tail = rest.partition("]")
        for span in inside.split(","):
            first, dash, last = span.partition("-")
            if dash and first.isdecimal() and last.isdecimal() and int(last) - int(first) < 100_000:
                names += [f"{head}{number:0{len(first)}}{tail}" for number in range(int(first), int(last) + 1)]
            else:
                names.append(f"{head}{span}{tail}")
    return names
