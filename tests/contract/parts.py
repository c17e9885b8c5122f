"""The parts of the contract: the name of each recording, and the function that records it."""

from collections.abc import Callable, Mapping

from tests.contract import benchmark, commands, configs, gateway, signatures, wire
from tests.contract.recording import Entries

PARTS: Mapping[str, Callable[[], Entries]] = {
    "benchmark": benchmark.recorded,
    "commands": commands.recorded,
    "config_files": configs.recorded_files,
    "configs": configs.recorded,
    "gateway": gateway.recorded,
    "signatures": signatures.recorded,
    "wire": wire.recorded,
}
