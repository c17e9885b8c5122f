"""Four versions of one program, as its author would deploy them: the agent `orders`.

`toolbus runs worker tests.durable.crash.programs.orders_v1:agent` is a worker. `python -m` with the same
module is a program that also starts runs.
"""
