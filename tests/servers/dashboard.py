"""A server with an app, in plain JSON-RPC over stdio. Run it: `python dashboard.py [SCRIPT_JSON]`.

The script may hold `html` (its app), `ui` (the `_meta.ui` of that resource), `mime`, and `name`.
"""

import json
import sys
import threading
import time
from typing import Any

Message = dict[str, Any]
SCRIPT: Message = json.loads(sys.argv[1]) if len(sys.argv) > 1 else {}
ANY: Message = {"type": "object"}
URI = "ui://dash/app.html"
PAGE = """<!doctype html><html><body><p id="said">starting</p><script>
const calls = new Map(); let number = 0;
function ask(method, params) {
  const id = ++number;
  parent.postMessage({ jsonrpc: "2.0", id, method, params }, "*");
  return new Promise((done) => calls.set(id, done));
}
function tell(method, params) { parent.postMessage({ jsonrpc: "2.0", method, params }, "*"); }
function say(text) { document.getElementById("said").textContent = text; }
const heard = [];
addEventListener("message", ({ data }) => {
  const done = { jsonrpc: "2.0", id: data.id, result: {} };
  if (data.method === "ui/resource-teardown") parent.postMessage(done, "*");
  if (data.method) { heard.push(data); onheard(data); } else calls.get(data.id)?.(data);
});
let onheard = ({ method, params }) => {
  if (method === "ui/notifications/tool-result") say("result: " + params.content[0].text);
  if (method === "ui/notifications/tool-cancelled") say("canceled: " + params.reason);
};
async function call(name, given) {
  const { result, error } = await ask("tools/call", { name, arguments: given || {} });
  return error ? "error: " + error.message : (result.isError ? "failed: " : "") + result.content[0].text;
}
const appInfo = { name: "x", version: "1" };
ask("ui/initialize", { protocolVersion: "2026-01-26", appInfo, appCapabilities: {} })
  .then(({ result }) => { window.host = result; tell("ui/notifications/initialized", {}); begin(); });
function begin() {}
</script><script>SCRIPT</script></body></html>"""


def page() -> str:
    return PAGE.replace("SCRIPT", SCRIPT.get("script", ""), 1)


def tool(name: str, **ui: Any) -> Message:
    more = {"_meta": {"ui": ui}} if ui else {}
    return {"name": name, "description": f"The tool {name}.", "inputSchema": ANY, **more}


TOOLS = [
    tool("show", resourceUri=URI),
    tool("slow_show", resourceUri=URI),
    tool("refresh", resourceUri=URI, visibility=["app"]),
    tool("pay"),
    tool("secret", visibility=["model"]),
    tool("big"),
    tool("ask"),
]


def answer(method: str, params: Message) -> Message | None:
    match method:
        case "initialize":
            info = {"name": "dashboard", "version": "1"}
            return {
                "protocolVersion": "2025-11-25",
                "serverInfo": info,
                "capabilities": {"tools": {}, "resources": {}},
            }
        case "tools/list":
            return {"tools": TOOLS}
        case "resources/list":
            return {"resources": [{"uri": "data://notes", "name": "notes"}]}
        case "resources/read" if params["uri"] == URI:
            meta = {"_meta": {"ui": SCRIPT["ui"]}} if "ui" in SCRIPT else {}
            mime = SCRIPT.get("mime", "text/html;profile=mcp-app")
            return {
                "contents": [{"uri": URI, "mimeType": mime, "text": SCRIPT.get("html") or page(), **meta}]
            }
        case "resources/read" if params["uri"] == "data://notes":
            return {"contents": [{"uri": "data://notes", "text": "buy tea"}]}
        case "tools/call":
            name: str = params["name"]
            given: Message = params.get("arguments") or {}
            text = "x" * 9_000_000 if name == "big" else f"{name} {json.dumps(given, sort_keys=True)}"
            return {"content": [{"type": "text", "text": text}]}
        case _:
            return None


def serve() -> None:
    printing = threading.Lock()

    def respond(message: Message) -> None:
        if message.get("params", {}).get("name") == "slow_show":
            time.sleep(3600)
        result = answer(message["method"], message.get("params") or {})
        found: Message = {"result": result}
        if result is None:
            found = {"error": {"code": -32601, "message": "no such method"}}
        with printing:
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **found}), flush=True)

    for line in sys.stdin:
        message: Message = json.loads(line)
        if "id" in message and "method" in message:
            threading.Thread(target=respond, args=(message,), daemon=True).start()


if __name__ == "__main__":
    serve()
