// Follows stderr, and goes on when a server of the registry was looked up.
"use strict";

// A log stays at its end unless the person has scrolled up.
const scrolledUp = new Map();

document.addEventListener("scroll", ({ target }) => {
  if (!target.matches?.("pre[data-follow]")) return;
  scrolledUp.set(target.getAttribute("aria-label"), target.scrollTop + target.clientHeight < target.scrollHeight - 8);
}, true);

function follow() {
  for (const log of document.querySelectorAll("pre[data-follow]")) {
    if (!scrolledUp.get(log.getAttribute("aria-label"))) log.scrollTop = log.scrollHeight;
  }
}

const wasBusy = document.querySelector("[data-busy]") !== null;

new MutationObserver(() => {
  follow();
  if (wasBusy && !document.querySelector("[data-busy]")) location.reload();
}).observe(document.getElementById("content"), { childList: true, subtree: true, attributeFilter: ["data-busy"] });

follow();
