"""A policy that allows, asks about and denies calls, and a function that answers for a person.

The rules are in policy.yaml. A function may ask in a chat, on a web page or on a phone; this one decides by
the length of the note.
"""

import asyncio

from toolbus import ApprovalRequest, CallDenied, Interactions, Toolbus

CALLS = [
    ("notes_add", {"text": "buy tea"}),
    ("notes_add", {"text": "buy tea, then bread, then cheese"}),
    ("notes_add", {"text": "the password is 1234"}),
    ("notes_forget", {"id": 1}),
]


def approve(request: ApprovalRequest) -> bool | str:
    """True or "once", "session", "always", "never"; any other text is the reason of a denial."""
    print(f"  {request.rule} asks about {request.name} {dict(request.arguments)}")
    return "once" if len(request.arguments["text"]) < 20 else "too long for a note"


async def main() -> None:
    """Make the calls, and print the results."""
    async with Toolbus("policy.yaml", interactions=Interactions(approve=approve)) as bus:
        print("tools:", ", ".join(bus.catalog.names))
        for name, arguments in CALLS:
            print(name, arguments)
            try:
                print(f"  {(await bus.call(name, arguments)).text}")
            except CallDenied as refused:
                print(f"  refused: {refused.reason}")
        found = await bus.call("notes_search", {"words": ""})
        assert found.structured is not None
        print("notes:", [note["text"] for note in found.structured["notes"]])


if __name__ == "__main__":
    asyncio.run(main())
