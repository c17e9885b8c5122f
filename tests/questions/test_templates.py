"""Templates of addresses, held against the examples of RFC 6570, sections 2.4 and 3.2."""

from typing import Any

import pytest

from tests.inside.core import expanded, variables
from toolbus import ArgumentsError

VALUES: dict[str, Any] = {
    "count": ["one", "two", "three"],
    "dom": ["example", "com"],
    "dub": "me/too",
    "hello": "Hello World!",
    "half": "50%",
    "var": "value",
    "who": "fred",
    "base": "http://example.com/home/",
    "path": "/foo/bar",
    "list": ["red", "green", "blue"],
    "keys": {"semi": ";", "dot": ".", "comma": ","},
    "v": "6",
    "x": "1024",
    "y": "768",
    "empty": "",
    "empty_keys": {},
    "undef": None,
}
EXAMPLES = """
{count} one,two,three | {count*} one,two,three | {/count} /one,two,three | {/count*} /one/two/three
{;count} ;count=one,two,three | {;count*} ;count=one;count=two;count=three
{&count*} &count=one&count=two&count=three
{?count} ?count=one,two,three | {?count*} ?count=one&count=two&count=three
{var} value | {hello} Hello%20World%21 | {half} 50%25 | O{empty}X OX | O{undef}X OX | {x,y} 1024,768
{x,hello,y} 1024,Hello%20World%21,768 | ?{x,empty} ?1024, | ?{x,undef} ?1024 | {var:3} val | {var:30} value
{list} red,green,blue | {list*} red,green,blue | {keys} semi,%3B,dot,.,comma,%2C
{keys*} semi=%3B,dot=.,comma=%2C | {+var} value | {+hello} Hello%20World! | {+half} 50%25
{base}index http%3A%2F%2Fexample.com%2Fhome%2Findex | {+base}index http://example.com/home/index
O{+empty}X OX | {+path}/here /foo/bar/here | here?ref={+path} here?ref=/foo/bar
{+path,x}/here /foo/bar,1024/here | {+path:6}/here /foo/b/here | {+list*} red,green,blue
{+keys} semi,;,dot,.,comma,, | {#var} #value | {#hello} #Hello%20World! | foo{#empty} foo#
foo{#undef} foo | {#x,hello,y} #1024,Hello%20World!,768 | {#path,x}/here #/foo/bar,1024/here
{#keys*} #semi=;,dot=.,comma=, | {.who} .fred | {.who,who} .fred.fred | {.half,who} .50%25.fred
www{.dom*} www.example.com | X{.var} X.value | X{.empty} X. | X{.undef} X | X{.var:3} X.val
X{.list} X.red,green,blue | X{.list*} X.red.green.blue | X{.keys*} X.semi=%3B.dot=..comma=%2C
X{.empty_keys} X | {/who} /fred | {/half,who} /50%25/fred | {/who,dub} /fred/me%2Ftoo | {/var,empty} /value/
{/var,x}/here /value/1024/here | {/var:1,var} /v/value | {/list*,path:4} /red/green/blue/%2Ffoo
{/keys*} /semi=%3B/dot=./comma=%2C | {;who} ;who=fred | {;half} ;half=50%25 | {;empty} ;empty
{;v,empty,who} ;v=6;empty;who=fred | {;v,undef,who} ;v=6;who=fred | {;x,y} ;x=1024;y=768
{;hello:5} ;hello=Hello | {;keys} ;keys=semi,%3B,dot,.,comma,%2C | {;keys*} ;semi=%3B;dot=.;comma=%2C
{?who} ?who=fred | {?x,y,empty} ?x=1024&y=768&empty= | {?x,y,undef} ?x=1024&y=768 | {?var:3} ?var=val
{?keys} ?keys=semi,%3B,dot,.,comma,%2C | {?keys*} ?semi=%3B&dot=.&comma=%2C | ?fixed=yes{&x} ?fixed=yes&x=1024
{&x,y,empty} &x=1024&y=768&empty= | {&var:3} &var=val | {&list} &list=red,green,blue
"""


@pytest.mark.parametrize(
    ("template", "address"),
    [example.split(maxsplit=1) for line in EXAMPLES.strip().splitlines() for example in line.split(" | ")],
)
def test_the_examples_of_the_standard(template: str, address: str) -> None:
    values = {name: VALUES[name] for name in variables(template)}
    assert expanded(template, values) == address.strip()


@pytest.mark.parametrize(
    ("template", "address"),
    [
        ("{k*}", "a=,b=1"),
        ("{+k*}", "a=,b=1"),
        ("{#k*}", "#a=,b=1"),
        ("{.k*}", ".a=.b=1"),
        ("{/k*}", "/a=/b=1"),
        ("{;k*}", ";a;b=1"),
        ("{?k*}", "?a=&b=1"),
        ("{&k*}", "&a=&b=1"),
        ("{;k}", ";k=a,,b,1"),
        ("{l*}", ",x"),
        ("{/l*}", "//x"),
        ("{;l*}", ";l;l=x"),
        ("{?l*}", "?l=&l=x"),
        ("{?l}", "?l=,x"),
    ],
)
def test_an_empty_item_is_written_as_section_3_2_1_of_the_standard_says(template: str, address: str) -> None:
    values: dict[str, Any] = {"k": {"a": "", "b": "1"}, "l": ["", "x"]}
    assert expanded(template, {name: values[name] for name in variables(template)}) == address


def test_what_stands_in_the_query_may_be_left_out() -> None:
    assert expanded("logs://{service}{?since,until}", {"service": "web"}) == "logs://web"
    assert (
        expanded("logs://{service}{?since,until}", {"service": "web", "until": "9"}) == "logs://web?until=9"
    )


@pytest.mark.parametrize(
    ("template", "values", "problem"),
    [
        ("a://{b}/{c}", {}, "no value for 'b' and 'c'"),
        ("a://{b}", {"b": "1", "d": "2"}, "unknown variable 'd'; known: b"),
        ("a://b", {"d": "2"}, "unknown variable 'd'; known: none"),
        ("a://{b", {"b": "1"}, "unbalanced brace"),
        ("a://b}", {}, "unbalanced brace"),
        ("a://{}", {}, "'' is not a variable name"),
        ("a://{b c}", {"b": "1"}, "'b c' is not a variable name"),
        ("a://{b:0}", {"b": "1"}, "'b:0' is not a variable name"),
    ],
)
def test_what_is_wrong_is_named(template: str, values: dict[str, Any], problem: str) -> None:
    with pytest.raises(ArgumentsError, match=problem):
        expanded(template, values)
