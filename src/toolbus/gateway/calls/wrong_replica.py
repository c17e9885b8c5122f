"""The error for a request whose session or call is in another replica."""


class WrongReplica(Exception):
    """Another replica has the session or the call of a request; whoever took the request passes it on."""

    def __init__(self, replica: str) -> None:
        self.replica = replica
        super().__init__(f"the replica {replica} has it")
