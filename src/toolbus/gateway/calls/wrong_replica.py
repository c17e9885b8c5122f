"""What a request is about is in another replica."""


class Elsewhere(Exception):
    """Another replica has the session or the call of a request; whoever took the request passes it on."""

    def __init__(self, replica: str) -> None:
        self.replica = replica
        super().__init__(f"the replica {replica} has it")
