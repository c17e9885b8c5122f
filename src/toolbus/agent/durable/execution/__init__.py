"""One execution of a durable run, with its journal."""
