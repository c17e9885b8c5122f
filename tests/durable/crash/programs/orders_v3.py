"""Version 3: `pay` was renamed to `charge`."""

from tests.durable.crash.programs.shop import EFFECTS, STOCK, charge, main, new_agent, order, ship

agent = new_agent("v3", [order, charge, ship], {"effects": EFFECTS, "stock": STOCK})

if __name__ == "__main__":
    main(agent, "v3")
