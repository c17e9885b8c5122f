"""The pages for people: sign-in and consent. No page has a script.

A client names itself, so pages call that a claim, and show the host that gets the answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlencode, urlsplit

from toolbus.console.elements import Child, Element, element
from toolbus.console.widgets import facts, form, hidden_fields, text_field
from toolbus.gateway.people.registry import PersonEntry
from toolbus.gateway.sign_in.request import REQUEST, WaitingRequest

STYLE = "console.css"
MOST_LETTERS = 80
"""The length to which the name of a client is cut."""
_MEANING = "It will use the tools of these views in your name, until somebody revokes that."
_ONLY_YOURS = "Allow this only if you have just added this gateway to that client yourself."


@dataclass(frozen=True, slots=True, kw_only=True)
class SignInPages:
    """The pages, for one gateway."""

    base: str
    """The path of the pages in the browser: `/sign-in`, behind the path of the public URL."""
    endpoint: str
    """The URL of the MCP endpoint."""
    provider: str
    """The host of the OIDC provider; empty without one."""
    has_invites: bool
    scopes: Mapping[str, str]
    """The views by scope."""

    def home(self, entry: PersonEntry, token: str) -> str:
        """The page of somebody who signed in, and did not come from a client."""
        url = element("code", self.endpoint, class_="breakable")
        return self._page(
            f"Signed in as {entry.person.name}",
            element("p", "If a client sent you here before, go back to that page and reload it."),
            element("p", "To connect another client, add a connector with this URL to it:"),
            element("p", url),
            facts({"Views": ", ".join(entry.views)}),
            self._leave(token, "", "Sign out"),
        )

    def who(self, request: str, waiting: WaitingRequest | None, problem: str = "") -> str:
        """The page that asks who somebody is."""
        title = "Sign in" if waiting is None else f"Sign in to connect {_name(waiting)}"
        ways: list[Child] = [problem and element("p", problem, class_="problem")]
        if self.provider:
            # A link: browsers follow redirects of a form only to places that the page has named before.
            where = f"{self.base}/oidc{f'?{urlencode({REQUEST: request})}' if request else ''}"
            ways.append(
                element("p", element("a", f"Sign in with {self.provider}", href=where, class_="button main"))
            )
        if self.has_invites:
            said = "If you have a one-time link for this gateway, "
            ask = "open it in this browser and reload this page, or paste it here."
            ways.append(element("p", f"{said}{ask}"))
            field = text_field("code", "One-time link", "code", required=True)
            hidden = hidden_fields({REQUEST: request} if request else {})
            ways.append(form(f"{self.base}/invite", hidden, field, _main("Continue")))
        return self._page(title, *ways)

    def invited(self, code: str, entry: PersonEntry) -> str:
        """The page behind a link, which does not use it: some programs read a page to preview it."""
        name = entry.person.name
        hidden = hidden_fields({"code": code})
        return self._page(
            f"Sign in as {name}",
            element("p", "This link works once. Use it only if you are ", element("strong", name), "."),
            form(f"{self.base}/invite", hidden, _main(f"Sign in as {name}")),
        )

    def consent(self, request: str, waiting: WaitingRequest, entry: PersonEntry, token: str) -> str:
        """The page that names client, views and scopes, and takes the answer."""
        views = granted(waiting, entry)
        hidden = hidden_fields({REQUEST: request, "token": token})
        refuse = _answer("refuse", "Refuse", "danger")
        fields = facts(
            {
                "Client": _claimed(waiting),
                "Sends you to": _destination(waiting),
                "Gives access to": waiting.resource,
                "Asks for": ", ".join(self._named(view, waiting) for view in waiting.views),
                "As": entry.person.name,
            }
        )
        if views:
            title = f"Connect {_name(waiting)}?"
            said = element("p", _MEANING)
            boxes = [_view(view, self._named(view, waiting)) for view in views]
            chosen = element("fieldset", element("legend", "Views"), boxes)
            answers = [chosen, element("p", _ONLY_YOURS), _answer("allow", "Allow", "main"), " ", refuse]
        else:
            title = f"You cannot connect {_name(waiting)}"
            said = self._instead(waiting, entry)
            answers = [refuse]
        leave = self._leave(token, request, "Sign in as somebody else")
        return self._page(title, said, fields, form(f"{self.base}/consent", hidden, *answers), leave)

    def refusal(self, title: str, *lines: str) -> str:
        """A page that only says something."""
        return self._page(title, *(element("p", line) for line in lines))

    def _named(self, view: str, waiting: WaitingRequest) -> str:
        """A view, with the scopes that give it, unless they have its name."""
        given = [scope for scope in waiting.scopes if self.scopes.get(scope) == view]
        return view if given in ([], [view]) else f"{view} (scope {', '.join(given)})"

    def _instead(self, waiting: WaitingRequest, entry: PersonEntry) -> Child:
        """The advice for a client that asks only for views of others."""
        asked = f"The client asks for {_views(waiting.views)}, and you may not use {_it(waiting.views)}."
        own = [view for view in entry.views if view in self.scopes.values()]
        if not own:
            return element("p", f"{asked} Ask the operator of this gateway for access.", class_="problem")
        urls = [element("code", f"{self.endpoint}/{quote(view)}", class_="breakable") for view in own]
        return [
            element("p", f"{asked} You may use {_views(own)}.", class_="problem"),
            element("p", "Refuse, and connect the client to one of your URLs instead:"),
            *(element("p", url) for url in urls),
        ]

    def _leave(self, token: str, request: str, label: str) -> Element:
        hidden = hidden_fields({"token": token, **({REQUEST: request} if request else {})})
        return form(f"{self.base}/out", hidden, element("button", label, type="submit"))

    def _page(self, title: str, *content: Child) -> str:
        head = element(
            "head",
            element("meta", charset="utf-8"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
            element("meta", name="color-scheme", content="light dark"),
            element("title", f"{title} - toolbus"),
            element("link", rel="stylesheet", href=f"{self.base}/{STYLE}"),
        )
        body = element("body", element("main", element("h1", title), *content, class_="refusal"))
        return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def granted(waiting: WaitingRequest, entry: PersonEntry) -> tuple[str, ...]:
    """The views that a person may give of those that a client asks for, in the client's order."""
    return tuple(view for view in waiting.views if view in entry.views)


def _name(waiting: WaitingRequest) -> str:
    return waiting.client_name[:MOST_LETTERS] or waiting.client_host or "a client"


def _claimed(waiting: WaitingRequest) -> str:
    named = f"{_name(waiting)}, as it calls itself"
    return f"{named}; published by {waiting.client_host}" if waiting.client_host else named


def _destination(waiting: WaitingRequest) -> Child:
    parts = urlsplit(waiting.redirect_uri)
    named = waiting.redirect_host if parts.scheme in ("http", "https") else f"{parts.scheme}://{parts.netloc}"
    where = " (a program on this computer)" if waiting.is_on_this_machine else ""
    return [element("strong", named), where]


def _views(views: Sequence[str]) -> str:
    return f"the view{'' if len(views) == 1 else 's'} {', '.join(views)}"


def _it(views: Sequence[str]) -> str:
    return "it" if len(views) == 1 else "them"


def _view(view: str, label: str) -> Element:
    """A view that a person may leave out."""
    box = element("input", type="checkbox", name="view", value=view, checked=True)
    return element("label", box, " ", label)


def _main(label: str) -> Element:
    return element("button", label, type="submit", class_="main")


def _answer(value: str, label: str, class_: str) -> Element:
    return element("button", label, type="submit", name="choice", value=value, class_=class_)
