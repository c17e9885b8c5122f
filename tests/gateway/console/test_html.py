"""HTML that cannot be broken out of, and the parts of a page that changed."""

import pytest

from tests.gateway.console.opening import Markup
from tests.inside.console import Element, LiveElements, element, live

HOSTILE = "</p><script>alert(1)</script><img src=x onerror=alert(1)>\"'&<!--"


def test_texts_and_attributes_are_escaped() -> None:
    made = str(element("p", HOSTILE, title=HOSTILE, data_x=HOSTILE, class_="a"))
    read = Markup(made)
    assert read.elements == [("p", {"title": HOSTILE, "data-x": HOSTILE, "class": "a"})]
    assert read.text.strip() == HOSTILE


def test_characters_that_hide_are_shown_and_what_a_form_sends_back_stays() -> None:
    text = "a\u202eb\u200bc\x1b[31m\ud800"
    assert str(element("p", text)) == "<p>a\\u202eb\\u200bc\\x1b[31m\\ud800</p>"
    field = str(element("input", name="server", value="a\u202e\r\nb"))
    assert Markup(field).named("input") == [{"name": "server", "value": "a\u202e\r\nb"}]


def test_children_may_be_nested_and_left_out() -> None:
    items = (element("li", number) for number in range(2))
    assert str(element("ul", [items, None, False, True, [["x"]], 1.5])) == (
        "<ul><li>0</li><li>1</li>x1.5</ul>"
    )
    assert str(element("input", disabled=True, checked=False, value=None)) == "<input disabled>"


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("a", {"href": "javascript:alert(1)"}),
        ("a", {"href": " \tjava\nscript:alert(1)"}),
        ("a", {"href": "JaVaScRiPt:alert(1)"}),
        ("a", {"href": "data:text/html,x"}),
        ("a", {"href": "//evil.example"}),
        ("a", {"href": "/\\evil.example"}),
        ("form", {"action": "https://evil.example"}),
        ("img", {"src": "https://evil.example/x.png"}),
        ("img", {"src": "data:image/svg+xml;base64,PHN2Zz4="}),
        ("script", {"src": "https://evil.example/x.js"}),
        ("p", {"onclick": "alert(1)"}),
        ("p", {"style": "color: red"}),
        ("p", {"x y": "z"}),
        ("iframe", {}),
        ("style", {}),
        ("p><b", {}),
    ],
)
def test_what_could_run_code_or_lead_elsewhere_is_an_error_of_ours(
    name: str, attributes: dict[str, str]
) -> None:
    with pytest.raises(ValueError, match="of the page"):
        element(name, **attributes)


def test_a_script_and_an_empty_element_contain_nothing() -> None:
    for name in ("script", "br"):
        with pytest.raises(ValueError, match="contains nothing"):
            element(name, "x")


@pytest.mark.parametrize("href", ["catalog?search=a:b", "../servers#x", "https://auth.example.com/a?b=c#d"])
def test_links_to_pages_and_to_the_web_are_fine(href: str) -> None:
    assert Markup(str(element("a", "x", href=href))).named("a") == [{"href": href}]


def _page(outer: str, *inner: str) -> Element:
    return element(
        "div",
        live("outer", outer, [element("p", live(f"inner{n}", text)) for n, text in enumerate(inner)]),
        live("other", "same"),
    )


def test_only_the_innermost_elements_that_changed_are_sent() -> None:
    reader = LiveElements()
    assert [one.id for one in reader.changes(_page("a", "x", "y"))] == ["outer", "other"]
    assert reader.changes(_page("a", "x", "y")) == []
    assert [one.id for one in reader.changes(_page("a", "x", "z"))] == ["inner1"]
    assert [one.id for one in reader.changes(_page("b", "x", "z"))] == ["outer"]
    assert [one.id for one in reader.changes(_page("b", "x"))] == ["outer"]
    assert reader.changes(_page("b", "x")) == []
