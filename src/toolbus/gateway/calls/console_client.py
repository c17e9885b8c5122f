"""A client without forms, while somebody has the console open: that person answers what servers ask."""

from dataclasses import replace

from toolbus.core.ask.forwarding import Client, ClientError
from toolbus.core.ask.question_router import Switchboard
from toolbus.core.operation.operation import Caller
from toolbus.core.values.elicitation import question
from toolbus.core.values.records import JSONObject
from toolbus.gateway.protocol.words import ELICITATION, INVALID_PARAMS, can_ask


class WatchedClient:
    """The client of a call; what it cannot be asked goes to the console."""

    def __init__(self, client: Client, board: Switchboard, caller: Caller, tool: str) -> None:
        self.capabilities: JSONObject = {**client.capabilities, "elicitation": {"form": {}, "url": {}}}
        self._client = client
        self._board = board
        self._caller = caller
        self._tool = tool

    async def ask(self, server: str, method: str, params: JSONObject) -> JSONObject:
        """Put a server's request to the client, or to whoever watches; that waits as long as it takes."""
        if method != ELICITATION or can_ask(self._client.capabilities, method, params):
            return await self._client.ask(server, method, params)
        asked = replace(
            question(params, server, self._tool), user=self._caller.user, session=self._caller.session
        )
        if asked.fault is not None:
            raise ClientError(INVALID_PARAMS, asked.fault)
        answer = await self._board.elicit(asked)
        content: JSONObject = {} if answer.content is None else {"content": dict(answer.content)}
        return {"action": answer.action, **content}
