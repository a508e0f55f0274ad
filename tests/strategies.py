"""Hypothesis strategies for records, read off the types themselves: no record is declared a second time here."""

from typing import Any

import msgspec
from hypothesis import reject
from hypothesis import strategies as st
from msgspec import inspect

from assay.artifact import schema_name, seal
from assay.record import ARTIFACTS, Artifact, StageName

characters = st.characters(exclude_categories=["Cs"])
"""Every character that UTF-8 can carry."""

words = st.text(characters, max_size=6)


def _text(node: inspect.StrType) -> st.SearchStrategy[str]:
    return words if node.pattern is None else st.from_regex(node.pattern, alphabet=characters)


def _integer(node: inspect.IntType) -> st.SearchStrategy[int]:
    return st.integers(-(2**53) + 1 if node.ge is None else node.ge, 2**53 - 1 if node.le is None else node.le)


def may_be_unset(field: inspect.Field) -> bool:
    """Return whether a record can be without a field: its default is UNSET, which msgspec shows as no default."""
    return not field.required and field.default is field.default_factory is msgspec.NODEFAULT


def _record(node: inspect.StructType) -> st.SearchStrategy[Any]:
    def make(**fields: Any) -> Any:
        try:
            return node.cls(**fields)
        except ValueError:
            # What a record refuses of its fields together, no type says.
            reject()

    fields = {field.name: _strategy(field.type) for field in node.fields}
    unset = {field.name for field in node.fields if may_be_unset(field)}
    needed = {name: strategy for name, strategy in fields.items() if name not in unset}
    optional = {name: strategy for name, strategy in fields.items() if name in unset}
    return st.fixed_dictionaries(needed, optional=optional).map(lambda chosen: make(**chosen))


def _strategy(node: inspect.Type) -> st.SearchStrategy[Any]:  # one line a kind of type
    match node:
        case inspect.StructType():
            return _record(node)
        case inspect.Metadata():
            return _strategy(node.type)
        case inspect.UnionType():
            return st.one_of([_strategy(choice) for choice in node.types])
        case inspect.LiteralType():
            return st.sampled_from(node.values)
        case inspect.ListType():
            return st.lists(_strategy(node.item_type), max_size=2)
        case inspect.TupleType():
            return st.tuples(*map(_strategy, node.item_types))
        case inspect.DictType():
            return st.dictionaries(_strategy(node.key_type), _strategy(node.value_type), max_size=2)
        case inspect.StrType():
            return _text(node)
        case inspect.IntType():
            return _integer(node)
        case inspect.FloatType():
            return st.floats(allow_nan=False, allow_infinity=False)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
    raise TypeError(f"no strategy for {node}")


def of(kind: Any) -> st.SearchStrategy[Any]:
    """Return a strategy for any type that a record is made of."""
    return _strategy(inspect.type_info(kind))


def sealed(stage: StageName) -> st.SearchStrategy[Artifact[Any]]:
    """Return a strategy for whole artifacts of a stage, as its session would have written them."""

    def finish(artifact: Artifact[Any]) -> Artifact[Any]:
        return seal(msgspec.structs.replace(artifact, schema=schema_name(stage), stage=stage))

    return of(ARTIFACTS[stage]).map(finish)
