"""The methods that clients can call, by era."""

from toolbus.gateway.methods import discovery, prompts, resources, tasks, tools
from toolbus.gateway.parts import Method

_BOTH: dict[str, Method] = {
    "tools/list": tools.list_tools,
    "tools/call": tools.call_tool,
    "resources/list": resources.list_resources,
    "resources/templates/list": resources.list_templates,
    "resources/read": resources.read,
    "prompts/list": prompts.list_prompts,
    "prompts/get": prompts.get,
    "completion/complete": prompts.complete,
    "tasks/get": tasks.get,
    "tasks/cancel": tasks.cancel,
}
MODERN: dict[str, Method] = {
    **_BOTH,
    "server/discover": discovery.discover,
    "subscriptions/listen": resources.listen,
    "tasks/update": tasks.update,
    "skills/list": resources.list_skills,
    "skills/get": resources.get_skill,
}
LEGACY: dict[str, Method] = {
    **_BOTH,
    "ping": discovery.ping,
    "logging/setLevel": discovery.set_level,
    "resources/subscribe": resources.subscribe,
    "resources/unsubscribe": resources.unsubscribe,
    "tasks/result": tasks.result,
    "tasks/list": tasks.list_tasks,
}
