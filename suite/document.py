"""The base of everything that a suite file may hold."""

from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, model_validator


def _parts(annotation: Any) -> list[Any]:
    """Types and words that an annotation allows: unions, literals and what carries metadata taken apart."""
    inner = get_args(annotation)
    return [part for each in inner for part in _parts(each)] if inner else [annotation]


class Document(BaseModel):
    """Base of everything a suite file may hold: immutable, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _numbers_are_numbers(cls, data: Any) -> Any:
        # A number of devices that YAML read as `true` or as a word is a mistake of the writer, not a 1.
        for name, value in data.items() if isinstance(data, dict) else ():
            if isinstance(value, bool | str) and name in cls.model_fields:
                kinds = _parts(cls.model_fields[name].annotation)
                if isinstance(value, str) and value in kinds:
                    continue
                if (int in kinds or float in kinds) and (isinstance(value, bool) or float not in kinds):
                    raise ValueError(f"{name}: got {value!r}, a {type(value).__name__}: a plain number is wanted")
        return data
