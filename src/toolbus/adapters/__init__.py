"""The tools of a bus for other people's agents: one file is one framework.

A file that needs its framework imports it when it is imported itself, and says what to install when that is
missing; where plain dicts will do, nothing is imported.
"""
