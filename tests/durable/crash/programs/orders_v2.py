"""Version 2: a function and a server were added, so orders are also reserved and shipped."""

from tests.durable.crash.programs.shop import EFFECTS, STOCK, main, new_agent, order, pay, ship

agent = new_agent("v2", [order, pay, ship], {"effects": EFFECTS, "stock": STOCK})

if __name__ == "__main__":
    main(agent, "v2")
