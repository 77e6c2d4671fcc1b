"""TypeScript declarations of the records that the page receives; labextension/src/records.ts is generated from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct, inspect

__all__ = ["declarations"]

_HEAD = """\
// Generated from the records in Python (make golden rewrites it). Do not edit.
// Sizes are in bytes, times in seconds since the epoch. null: not known, or there is none.
"""

_PLAIN: dict[type[inspect.Type], str] = {
    inspect.AnyType: "unknown",
    inspect.BoolType: "boolean",
    inspect.FloatType: "number",
    inspect.IntType: "number",
    inspect.NoneType: "null",
    inspect.StrType: "string",
}


def declarations(records: Iterable[type[Struct]]) -> str:
    """Return a module that declares these records and the records inside them, dependencies first."""
    found: dict[str, inspect.StructType] = {}
    for record in records:
        _collect(inspect.type_info(record), found)
    return "\n".join([_HEAD, *(_interface(struct) for struct in found.values())])


def _collect(info: inspect.Type, found: dict[str, inspect.StructType], above: tuple[type, ...] = ()) -> None:
    if isinstance(info, inspect.StructType):
        if info.cls in above:  # a record may contain one of its own kind
            return
        above = (*above, info.cls)
    for inner in _inside(info):
        _collect(inner, found, above)
    if isinstance(info, inspect.StructType):
        found.setdefault(info.cls.__name__, info)


def _inside(info: inspect.Type) -> Iterator[inspect.Type]:
    if isinstance(info, inspect.StructType):
        yield from (field.type for field in info.fields)
    elif isinstance(info, inspect.UnionType):
        yield from info.types
    elif isinstance(info, (inspect.VarTupleType, inspect.ListType)):
        yield info.item_type
    elif isinstance(info, inspect.DictType):
        yield info.value_type


def _interface(struct: inspect.StructType) -> str:
    about = (struct.cls.__doc__ or "").strip()
    lines = [f"/** {about} */"] if about else []
    lines.append(f"export interface {struct.cls.__name__} {{")
    if struct.tag_field is not None:
        lines.append(f"  readonly {struct.tag_field}: '{struct.tag}';")
    # With omit_defaults, a field that has its default is left out.
    omitted = struct.cls.__struct_config__.omit_defaults
    for field in struct.fields:
        mark = "?" if omitted and not field.required else ""
        lines.append(f"  readonly {field.encode_name}{mark}: {_type(field.type)};")
    return "\n".join([*lines, "}", ""])


def _type(info: inspect.Type) -> str:
    if plain := _PLAIN.get(type(info)):
        return plain
    if isinstance(info, inspect.StructType):
        return info.cls.__name__
    if isinstance(info, inspect.LiteralType):
        return " | ".join(f"'{value}'" for value in info.values)
    if isinstance(info, inspect.UnionType):
        return " | ".join(_type(member) for member in info.types)
    if isinstance(info, (inspect.VarTupleType, inspect.ListType)):
        return f"ReadonlyArray<{_type(info.item_type)}>"
    if isinstance(info, inspect.DictType):
        return f"Readonly<Record<string, {_type(info.value_type)}>>"
    raise TypeError(f"no TypeScript for {info}")
