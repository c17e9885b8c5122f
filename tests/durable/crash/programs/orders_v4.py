"""Version 4: `ship` was removed."""

from tests.durable.crash.programs.shop import EFFECTS, STOCK, charge, main, new_agent, order

agent = new_agent("v4", [order, charge], {"effects": EFFECTS, "stock": STOCK})

if __name__ == "__main__":
    main(agent, "v4")
