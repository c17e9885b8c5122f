"""The memory of a console: counts of calls, states of servers, arguments and results."""
