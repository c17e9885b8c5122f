"""What changed on a page since its reader last got something: the live elements to replace."""

from toolbus.console.html.elements import Element


class LiveElements:
    """The live elements that one reader has, by their digests."""

    def __init__(self) -> None:
        self._sent: dict[str, str] = {}

    def changes(self, page: Element) -> list[Element]:
        """The elements to send; of an element and those within it, the innermost that changed."""
        sent, changed = dict[str, str](), list[Element]()
        for element in page.live_below():
            self._compare(element, sent, changed)
        self._sent = sent
        return changed

    def _compare(self, element: Element, sent: dict[str, str], changed: list[Element]) -> None:
        is_same = self._sent.get(element.id) == element.digest
        if not is_same:
            changed.append(element)
        sent[element.id] = element.digest
        for inner in element.live_below():
            # What is within a changed element is sent with it.
            self._compare(inner, sent, changed if is_same else [])
