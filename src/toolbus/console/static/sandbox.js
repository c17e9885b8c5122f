// The outer frame of an app: passes messages between the page around it and the app inside.
"use strict";

const { host, view, allow } = document.currentScript.dataset;
const inner = document.createElement("iframe");

// The app has no origin, so it cannot be named as a target; the browser keeps the frame at this one URL.
addEventListener("message", ({ source, origin, data }) => {
  if (source === parent && origin === host) {
    inner.contentWindow?.postMessage(data, "*");
  } else if (source === inner.contentWindow && origin === "null" && !isOurs(data)) {
    parent.postMessage(data, host);
  }
});

function isOurs(message) {
  return String(message?.method).startsWith("ui/notifications/sandbox-");
}

inner.setAttribute("sandbox", "allow-scripts allow-forms");
inner.allow = allow;
inner.title = "app";
inner.src = view;
inner.style.cssText = "position: fixed; inset: 0; width: 100%; height: 100%; border: 0";
document.body.append(inner);
parent.postMessage({ jsonrpc: "2.0", method: "ui/notifications/sandbox-proxy-ready", params: {} }, host);
