"""The parts of the contract: the name of each recording, and the function that records it."""

from collections.abc import Callable, Mapping

from tests.contract import benchmark, configs, signatures
from tests.contract.recording import Entries

PARTS: Mapping[str, Callable[[], Entries]] = {
    "benchmark": benchmark.recorded,
    "config_files": configs.recorded_files,
    "configs": configs.recorded,
    "signatures": signatures.recorded,
}
