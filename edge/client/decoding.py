"""JSON as frozen dataclasses. What a later release adds to an answer is ignored, what is missing is a ContractError."""

from __future__ import annotations

import types
from collections.abc import Callable, Hashable
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from edge.client.errors import ContractError

T = TypeVar("T")
_Read = Callable[[object, str], Any]

NAME = "json"
"""In a field's metadata: its name in JSON, where it is another one than in Python."""


def decoded(kind: type[T], value: object) -> T:
    """Return `value`, parsed JSON, as a `kind`. Raises ContractError naming the first field that is wrong."""
    made: T = _reader(cast("Hashable", kind))(value, "$")
    return made


@cache
def _reader(kind: Hashable) -> _Read:
    # Made once for each type: a board has tens of thousands of values.
    if is_dataclass(kind):
        return _object(cast("type[Any]", kind))
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is tuple:
        return _array(_reader(arguments[0]))
    if origin in (Union, types.UnionType):
        [one] = [argument for argument in arguments if argument is not type(None)]
        return _optional(_reader(one))
    return _SCALARS[kind]


def _object(kind: type[Any]) -> _Read:
    hints = get_type_hints(kind)
    parts = [
        (
            field.name,
            field.metadata.get(NAME, field.name),
            field.default is MISSING,
            _reader(hints[field.name]),
        )
        for field in fields(kind)
    ]

    def read(value: object, path: str) -> object:
        if not isinstance(value, dict):
            raise _broken(path, "an object", value)
        found = {}
        for name, key, is_required, read_part in parts:
            if key in value:
                found[name] = read_part(value[key], f"{path}.{key}")
            elif is_required:
                raise ContractError(f"{path}.{key}: is missing in the answer")
        return kind(**found)

    return read


def _array(read_one: _Read) -> _Read:
    def read(value: object, path: str) -> object:
        if not isinstance(value, list):
            raise _broken(path, "an array", value)
        return tuple([read_one(one, f"{path}[]") for one in value])

    return read


def _optional(read_one: _Read) -> _Read:
    return lambda value, path: None if value is None else read_one(value, path)


def _text(value: object, path: str) -> str:
    if not isinstance(value, str):
        raise _broken(path, "a text", value)
    return value


def _integer(value: object, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _broken(path, "an integer", value)
    return value


def _number(value: object, path: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _broken(path, "a number", value)
    return float(value)


def _flag(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise _broken(path, "true or false", value)
    return value


def _day(value: object, path: str) -> date:
    try:
        return date.fromisoformat(_text(value, path))
    except ValueError as error:
        raise _broken(path, "a day", value) from error


def _moment(value: object, path: str) -> datetime:
    try:
        return datetime.fromisoformat(_text(value, path))
    except ValueError as error:
        raise _broken(path, "a moment", value) from error


def _broken(path: str, wanted: str, value: object) -> ContractError:
    # The kind of the value alone: what an account has trained is nothing for a log.
    return ContractError(f"{path}: should be {wanted}, and is of the type {type(value).__name__}")


_SCALARS: dict[Any, _Read] = {
    str: _text, int: _integer, float: _number, bool: _flag, date: _day, datetime: _moment,
}  # fmt: skip
