"""The words of a text, as they are compared: identifiers taken apart, without endings, with synonyms."""

import hashlib
import re
from collections.abc import Sequence
from itertools import chain, pairwise

# What is most frequent is first; at one place in a text only one of the first three can begin.
_PART = re.compile(
    r"[A-Z]?[a-z]+|[A-Z]+(?=[A-Z][a-z])|[A-Z]+|\d+"
    r"|[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+|[^\W\d_a-zA-Z]+"
)
_RUN = re.compile(r"[^\W_]+")
_SPACED = {code: " " for code in range(128) if not chr(code).isalnum()}
_NO_LETTER = re.compile(r"[\W_]+")
_NO_SPACES = "\u3040"
"""From here on, scripts whose words are not separated; their texts are compared by pairs of characters."""
_MOST_KNOWN = 65_536
_LONGEST_KNOWN = 40
_COMMON_TEXT = """
a an and are as at be by can do for from has have how i if in into is it its me my

of on or our please should so such that the their them then there these this to

up use used user using via was we what when where which will with you your
"""
_COMMON = frozenset(_COMMON_TEXT.split())


def parts(text: str) -> list[str]:
    """The words as they are written: `getIssue_list2` has `get`, `Issue`, `list` and `2`."""
    return _PART.findall(text)


def words(text: str) -> list[str]:
    """The words to compare, without the most common ones."""
    # The same runs, faster than by the pattern.
    runs = text.translate(_SPACED).split() if text.isascii() else _RUN.findall(text)
    return list(chain.from_iterable(map(_COMPARED.__getitem__, runs)))


def key(text: str) -> str:
    """The letters and digits of a name: the same for `create_issue`, `createIssue` and `Create issue`."""
    return _NO_LETTER.sub("", text.casefold())


def digest(text: str) -> bytes:
    """The key for the vector of a text."""
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()[:16]


class _ComparisonCache(dict[str, tuple[str, ...]]):
    """The words for comparing each run of letters; a bounded cache, because most occur in many texts."""

    def __missing__(self, run: str) -> tuple[str, ...]:
        found = tuple(word for part in _PART.findall(run) for word in _compared(part))
        if len(run) <= _LONGEST_KNOWN:
            if len(self) >= _MOST_KNOWN:
                self.clear()
            self[run] = found
        return found


def _compared(part: str) -> tuple[str, ...]:
    word = part.casefold()
    if word in _COMMON:
        return ()
    if word[0] >= _NO_SPACES:
        return tuple(word[at : at + 2] for at in range(max(1, len(word) - 1)))
    return (_stem(word),)


def _stem(word: str) -> str:
    """The word without the endings of English that do not change what it is about."""
    if len(word) > 4 and word.endswith("ies"):
        word = word[:-3] + "y"
    elif len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    if len(word) > 5 and word.endswith("ing"):
        word = word[:-3]
    elif len(word) > 4 and word.endswith("ed"):
        word = word[:-2]
    if len(word) > 4 and word.endswith("ation"):
        word = word[:-3]
    return word[:-1] if len(word) > 4 and word.endswith("e") else word


_COMPARED = _ComparisonCache()


_GROUPS = """
create add make new open insert generate build start write
create file report submit raise
get read fetch show view retrieve load open see display look
list show all enumerate which
search find look query lookup discover
delete remove drop clear erase discard forget
update edit change modify set patch replace
send post publish write push upload
run execute start launch invoke
stop end kill terminate close cancel
move rename
copy duplicate clone fork
merge join combine
save store write keep
convert transform translate turn
compare diff difference
upload push attach
download fetch get
answer reply respond
calculate compute
navigate go visit open
click press tap
draw plot generate create
finish complete done mark
lock protect
issue ticket bug problem defect
repository repo project
file document doc
folder directory
message chat post
channel room conversation
page website webpage site tab
picture image photo screenshot
sheet worksheet spreadsheet workbook excel
presentation slide deck powerpoint
comment remark note reply
user person member people account
task todo
setting config configuration option preference
process program
article paper publication
price cost rate
stock share ticker
chart graph plot diagram
log output history
event appointment meeting calendar
email mail message
database db
news headline
address location place
version release
dependency package library
vulnerability security
documentation doc manual
row record
function method
"""
_PHRASES = {"pr": "pull request", "mr": "pull request", "merge request": "pull request"}


def _table() -> dict[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {}
    for group in map(words, _GROUPS.strip().splitlines()):
        for word in group:
            found.setdefault(word, {}).update(dict.fromkeys(group))
    return {word: tuple(other for other in group if other != word) for word, group in found.items()}


_SYNONYMS = _table()
_SPELLED = {stem: word for word in _GROUPS.split() for stem in words(word)}
_IN_PHRASES = {tuple(words(phrase)): tuple(words(meant)) for phrase, meant in _PHRASES.items()}


def with_synonyms(asked: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Each word of a query, as `words` returns them, with those that may mean the same in a name."""
    found = {word: _SYNONYMS.get(word, ()) for word in asked}
    for phrase in (*((word,) for word in asked), *pairwise(asked)):
        for meant in _IN_PHRASES.get(phrase, ()):
            for word in phrase:
                if meant != word and meant not in found[word]:
                    found[word] += (meant,)
    return found


def spelled(word: str) -> str:
    """A common word as people write it, with its ending."""
    return _SPELLED.get(word, word)
