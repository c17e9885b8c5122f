"""The metrics of several workers as one page: the same series, each with the number of its worker."""

from collections.abc import Mapping


def merged(pages: Mapping[int, str], count: int) -> str:
    """One page of those of the workers; which of `count` workers are missing shows in `worker_up`."""
    meanings: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for number, page in sorted(pages.items()):
        name = ""
        for line in page.splitlines():
            if line.startswith("# "):
                _, kind, name, _ = line.split(" ", 3)
                if kind == "HELP":
                    samples.setdefault(name, [])
                    meanings[name] = []
                meanings[name].append(line)
            else:
                samples[name].append(_labelled(line, number))
    lines = [line for name, found in samples.items() for line in (*meanings[name], *found)]
    lines += [
        "# HELP toolbus_gateway_worker_up 1 for a worker that could be asked.",
        "# TYPE toolbus_gateway_worker_up gauge",
        *(
            f'toolbus_gateway_worker_up{{worker="{number}"}} {int(number in pages)}'
            for number in range(count)
        ),
    ]
    return "\n".join(lines) + "\n"


def _labelled(sample: str, number: int) -> str:
    labelled, _, value = sample.rpartition(" ")
    name, brace, rest = labelled.partition("{")
    more = f",{rest}" if brace else "}"
    return f'{name}{{worker="{number}"{more} {value}'
