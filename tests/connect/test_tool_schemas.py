"""The schemas of listed tools: the quick look for ordinary ones hides no fault."""

from typing import Any
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from tests.inside.core import tool_definition

KEYWORDS = [
    *("type", "properties", "required", "items", "enum", "const", "additionalProperties", "anyOf", "$ref"),
    *("title", "default", "minLength", "patternProperties", "not", "x-other"),
]
VALUES: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(0, 3),
    st.sampled_from(["object", "string", "Object", "any", "#/properties/a", ""]),
    st.lists(st.sampled_from(["a", "object", 1, {}]), max_size=2),
)


def schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.dictionaries(
        st.sampled_from(KEYWORDS),
        st.one_of(
            VALUES,
            inner,
            st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            st.lists(inner, max_size=2),
        ),
        max_size=4,
    )


@given(schemas(st.recursive(VALUES, schemas, max_leaves=6)))
def test_the_quick_look_at_a_schema_never_hides_a_fault(schema: dict[str, Any]) -> None:
    quick: list[str] = []
    full: list[str] = []
    found = tool_definition.arguments_schema(schema, quick)
    with patch.object(tool_definition, "_is_ordinary", return_value=False):
        assert (found, quick) == (tool_definition.arguments_schema(schema, full), full)
