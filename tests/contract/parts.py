"""The parts of the contract: the name of each recording, and the function that records it."""

from collections.abc import Callable, Mapping

from tests.contract import benchmark, commands, configs, durable, gateway, old_files, signatures, wire
from tests.contract.recording import Entries

PARTS: Mapping[str, Callable[[], Entries]] = {
    "benchmark": benchmark.recorded,
    "commands": commands.recorded,
    "config_files": configs.recorded_files,
    "configs": configs.recorded,
    "durable": durable.recorded,
    "gateway": gateway.recorded,
    "old_files": old_files.recorded,
    "signatures": signatures.recorded,
    "wire": wire.recorded,
}
