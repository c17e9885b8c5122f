"""The four suites of AgentDojo v1, for `backend.py`; runs in the environment of `agentdojo`.

`tasks` is the list of all user tasks and injections, with their gold calls.
"""

import hashlib
import importlib
from functools import cache
from typing import Any

VERSION = "v1"


@cache
def _suites() -> dict[str, Any]:
    return dict(_module("task_suite.load_suites").get_suites(VERSION))


def tools(name: str) -> list[dict[str, Any]]:
    """The definitions of a suite."""
    return [
        {
            "name": one.name,
            "description": one.description,
            "inputSchema": {
                key: value for key, value in one.parameters.model_json_schema().items() if key != "title"
            },
        }
        for one in _suites()[name].tools
    ]


class Environment:
    """The environment of a suite, as a task starts with it."""

    def __init__(self, name: str, task: str) -> None:
        self._runtime = _module("functions_runtime").FunctionsRuntime(_suites()[name].tools)
        self._data: Any = _environment(name, task)

    def call(self, name: str, arguments: dict[str, Any]) -> tuple[str, bool]:
        result, error = self._runtime.run_function(self._data, name, arguments)
        return (
            (error, True)
            if error
            else (_module("agent_pipeline.tool_execution").tool_result_to_str(result), False)
        )

    def state(self) -> str:
        """A digest of all data."""
        return hashlib.sha256(self._data.model_dump_json().encode()).hexdigest()


def opened(name: str, scenario: dict[str, Any]) -> Environment:
    """The environment of a task."""
    return Environment(name, scenario["task"])


def direct(environment: Environment, call: dict[str, Any]) -> tuple[str, bool]:
    """The result of a call without MCP."""
    return environment.call(call["tool"], call["arguments"])


def tasks() -> list[dict[str, Any]]:
    """All user tasks and injections."""
    return [
        {
            "suite": name,
            "id": task,
            "text": getattr(one, "PROMPT", "") or getattr(one, "GOAL", ""),
            "calls": [
                {"tool": call.function, "arguments": call.args}
                for call in one.ground_truth(_environment(name, task))
            ],
        }
        for name, suite in _suites().items()
        for task, one in {**suite.user_tasks, **suite.injection_tasks}.items()
    ]


def _environment(name: str, task: str) -> Any:
    suite = _suites()[name]
    data = _default(name).model_copy(deep=True)
    return suite.user_tasks[task].init_environment(data) if task in suite.user_tasks else data


def _module(name: str) -> Any:
    return importlib.import_module(f"agentdojo.{name}")


@cache
def _default(name: str) -> Any:
    return _suites()[name].load_and_inject_default_environment({})
