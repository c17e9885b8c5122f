"""Version 1: orders are placed and paid."""

from tests.durable.crash.programs.shop import EFFECTS, main, new_agent, order, pay

agent = new_agent("v1", [order, pay], {"effects": EFFECTS})

if __name__ == "__main__":
    main(agent, "v1")
