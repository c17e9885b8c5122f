"""Words that people use for the verbs and objects in the names of tools."""

from collections.abc import Sequence
from itertools import pairwise

from toolbus.search.words import words

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
