"""Protobuf messages from a table of field numbers, so that no generated module and no TensorFlow is needed."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
INT64, UINT64, FLOAT, DOUBLE = _FIELD.TYPE_INT64, _FIELD.TYPE_UINT64, _FIELD.TYPE_FLOAT, _FIELD.TYPE_DOUBLE
STRING, BYTES = _FIELD.TYPE_STRING, _FIELD.TYPE_BYTES

Fields = Mapping[str, tuple[int, Any, bool]]
"""Name -> number, type (one of the constants, or the name of a message of the same table), whether it is repeated."""


class Messages:
    """The messages of one table, under a package name of their own."""

    def __init__(self, package: str, messages: Mapping[str, Fields]) -> None:
        self._package = package
        self._messages = messages

    def of(self, name: str) -> Any:
        """The class of one of the messages."""
        return message_factory.GetMessageClass(self._pool.FindMessageTypeByName(f"{self._package}.{name}"))

    @cached_property
    def _pool(self) -> Any:
        file = descriptor_pb2.FileDescriptorProto(name=f"{self._package}.proto", package=self._package, syntax="proto2")
        for message, fields in self._messages.items():
            described = file.message_type.add(name=message)
            for field, (number, kind, repeated) in fields.items():
                added = described.field.add(name=field, number=number)
                added.label = _FIELD.LABEL_REPEATED if repeated else _FIELD.LABEL_OPTIONAL
                if isinstance(kind, str):
                    added.type, added.type_name = _FIELD.TYPE_MESSAGE, f".{self._package}.{kind}"
                else:
                    added.type = kind
        pool = descriptor_pool.DescriptorPool()
        pool.Add(file)
        return pool
