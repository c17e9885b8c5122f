"""What the language of scripts has and lacks, as a model is told; a test runs every claim."""

MODULES = (
    *("asyncio", "base64", "bisect", "collections", "copy", "csv", "dataclasses", "datetime", "decimal"),
    *("functools", "hashlib", "itertools", "json", "math", "random", "re", "time", "typing"),
)
HAS = (
    *("functions", "lambda", "decorators", "comprehensions", "f-strings", "try/except/finally", "match"),
    *("simple classes", "dataclasses", "asyncio.gather", "asyncio.sleep"),
)
LACKS = (
    *("yield", "class inheritance", "properties", "del", "async with", "async for", "asyncio.create_task"),
    *("methods as values such as key=d.get (use a lambda)", "next() of a generator (use a list and iter)"),
    *("import *", "input()", "files", "network", "environment variables", "other modules"),
)
LANGUAGE = (
    f"The language is a part of Python. It has {', '.join(HAS)}, and the modules {', '.join(MODULES)}, "
    f"which have to be imported. It lacks {', '.join(LACKS)}."
)
