// The Inbox by keyboard: j and k go from entry to entry, Enter goes into one. Each answer takes its own key press.
"use strict";

const INTO = "input:not([type=hidden]), select, textarea, .answers button, .answers a";

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  const entries = [...document.querySelectorAll(".entry")];
  const now = entries.findIndex((entry) => entry.contains(document.activeElement));
  const step = { j: 1, k: -1 }[event.key];
  if (step && !isTyping(event.target)) {
    const next = entries[now < 0 ? 0 : Math.min(Math.max(now + step, 0), entries.length - 1)];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  } else if (event.key === "Enter" && entries.includes(event.target)) {
    event.preventDefault(); // the same key press must not answer
    event.target.querySelector(INTO)?.focus();
  } else if (event.key === "Escape" && now >= 0) {
    entries[now].focus();
  }
});
