"""`make proof`: the recorded calls of public benchmarks, made on every path through toolbus.

A benchmark says which calls solve each of its tasks: the gold calls. Its backends run as MCP servers, and the
calls are made directly and on each path. The results and the final state must be the same.
"""
