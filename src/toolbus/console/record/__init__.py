"""What a console remembers: counts of calls, states of servers, arguments and results."""
