"""Takes out of a bundle what identifies a machine, its owner or its network; one thing keeps one name throughout.

First everything is read once, to learn the names of hosts, users and serial numbers from where they stand; then all is
rewritten in one pass, so that nothing is rewritten twice. Serial numbers below six characters are taken out of their own
fields only: elsewhere they could be any number.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

from tfscale.suite.sources import identities as ids

_SHORTEST_SERIAL, _SHORTEST_NAME = 6, 2
_FIXED = frozenset({"rc", "stdout", "stderr"})
Texts = Iterator[tuple[str, str]]


class Redactor:
    """Learns from `learn`, then rewrites with `key`, `name_under` and `value`.

    `hosts` and `users` are names known beforehand: this host's own, who runs this.
    """

    def __init__(self, hosts: Iterable[str] = (), users: Iterable[str] = ()) -> None:
        self._words: dict[str, str] = {}
        self._domains: set[str] = set()
        self._numbers: dict[str, dict[str, int]] = {}
        for host in hosts:
            self._host(host)
        for user in users:
            self._user(user)

    def learn(self, key: str, value: Any) -> None:
        """Take note of the names in one answer."""
        for where, text in [(key, key), *_texts(key, value)]:
            if text is not key and ids.HOST_KEY.search(where):
                for name in ids.expand(text):
                    self._host(name)
            if text is not key and ids.SERIAL_KEY.search(where):
                self._serial(text)
            for found in ids.HOST_LINE.finditer(text):
                self._host(found[1])
            for found in ids.SERIAL_LINE.finditer(text):
                self._serial(found[1])
            if ids.FABRIC_KEY.search(key):
                names = (found[1] or found[2] or found[3] for found in ids.DESCRIPTION.finditer(text))
                for name in names:
                    if not ids.MODELS.match(name):
                        self._host(name)
            for found in ids.HOME.finditer(text):
                self._user(found[1])

    def key(self, key: str) -> str:
        """A source's key. The whole parts of the kernel's own paths are not names of hosts or users."""
        return self._path(key) if ids.KERNEL_PATH.match(key) else self._text(key)

    def name_under(self, key: str, name: str) -> str:
        """A name in the listing of `key`, rewritten just as the key of what it names would be."""
        return self.key(f"{key}/{name}" if key else name).rpartition("/")[2]

    def value(self, key: str, value: Any) -> Any:
        """Plain data behind `key`, rewritten; keys of mappings as well."""
        if isinstance(value, str):
            return self._at(key, value)
        if isinstance(value, Mapping):
            return {
                name if name in _FIXED else self._text(str(name)): self.value(f"{key}/{name}", inner)
                for name, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(key, inner) for inner in value]
        if isinstance(value, int) and not isinstance(value, bool) and ids.SERIAL_KEY.search(key):
            return self._label("serial", str(value))
        return value

    def _at(self, key: str, text: str) -> str:
        if ids.SERIAL_KEY.search(key) and text.lower() not in ids.NOBODY:
            return self._label("serial", text)
        if ids.LID_KEY.search(key):
            return self._label("lid", text)
        if ("[" in text or text.isdecimal()) and ids.HOST_KEY.search(key):
            return self._label("host", text)
        if ids.KERNEL_PATH.match(text) and not re.search(r"\s", text):
            return self._path(text)
        return self._text(text, versions=bool(ids.VERSION_KEY.search(key)))

    def _path(self, path: str) -> str:
        return "/".join(part if part.lower() in self._words else self._text(part) for part in path.split("/"))

    def _text(self, text: str, versions: bool = False) -> str:
        def replaced(found: re.Match[str]) -> str:
            kind, original = str(found.lastgroup), found[0]
            if kind == "word":
                return self._label(self._words.get(original.lower(), "host"), original)
            if kind == "lid":
                return self._label("lid", original)
            if versions and kind == "ipv4":
                return original
            if ids.is_address(kind, original):
                return self._label(kind, original)
            # A time of day looks like the start of an IPv6 address; what stands in it may still be something.
            return ":".join(map(self._text, original.split(":"))) if kind == "ipv6" else original

        text = ids.SERIAL_LINE.sub(self._serial_line, text)
        text = ids.LID_LINE.sub(lambda found: found[0].removesuffix(found[1]) + self._label("lid", found[1]), text)
        return self._pattern.sub(replaced, text)

    def _serial_line(self, found: re.Match[str]) -> str:
        original = found[1]
        known = len(original) >= _SHORTEST_SERIAL or original.strip("[]").lower() in ids.NOBODY
        return found[0] if known else found[0].removesuffix(original) + self._label("serial", original)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        parts = [f"(?P<{kind}>{pattern})" for kind, pattern in ids.PATTERNS]
        names = [re.escape(word) for word in sorted(self._words, key=len, reverse=True)]
        names = [
            rf"(?:[\w-]+\.)*{re.escape(domain)}" for domain in sorted(self._domains, key=len, reverse=True)
        ] + names
        if names:
            parts.append(rf"(?P<word>(?i:(?<![A-Za-z0-9])(?:{'|'.join(names)})(?![A-Za-z0-9])))")
        parts.append(f"(?P<lid>{ids.LID.pattern})")
        return re.compile("|".join(parts))

    def _label(self, kind: str, original: str) -> str:
        label = ids.LABELS[kind]
        known = self._numbers.setdefault(label, {})
        return f"{label}-{known.setdefault(ids.identity(kind, original), len(known) + 1):04}"

    def _host(self, name: str) -> None:
        name = name.strip().strip(".").lower()
        if len(name) < _SHORTEST_NAME or name in ids.NOBODY or not re.search("[a-z]", name):
            return
        self._words[name] = "host"
        short, dot, domain = name.partition(".")
        if dot:
            if "." in domain:
                self._domains.add(domain)
            if len(short) >= _SHORTEST_NAME and short not in ids.NOBODY:
                self._words[short] = "host"
        self.__dict__.pop("_pattern", None)

    def _user(self, name: str) -> None:
        if len(name) >= _SHORTEST_NAME and name.lower() not in ids.EVERYBODY:
            self._words.setdefault(name.lower(), "user")
            self.__dict__.pop("_pattern", None)

    def _serial(self, text: str) -> None:
        if len(text) >= _SHORTEST_SERIAL and text.lower() not in ids.NOBODY:
            self._words.setdefault(text.lower(), "serial")
            self.__dict__.pop("_pattern", None)


def _texts(key: str, value: Any) -> Texts:
    """Every text in plain data, with the path to it."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield f"{key}/{name}", str(name) if name not in _FIXED else ""
            yield from _texts(f"{key}/{name}", inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(key, inner)
