"""The tools of a bus for other agent frameworks, one module per framework.

A module that needs its framework imports it at once, and names the extra to install if it is missing. Modules
that work with plain dicts import nothing.
"""
