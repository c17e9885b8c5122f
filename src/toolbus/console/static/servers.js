// Copies launch lines, follows stderr, and goes on when a server of the registry was looked up.
"use strict";

function showCopyButtons(root) {
  for (const button of root.querySelectorAll("button[data-copy]")) button.hidden = false;
}

document.addEventListener("click", async ({ target }) => {
  const button = target.closest("button[data-copy]");
  const text = button && document.getElementById(button.dataset.copy);
  if (!text) return;
  try {
    await navigator.clipboard.writeText(text.textContent);
    button.textContent = "Copied";
  } catch { // not over HTTP from elsewhere: then the text is selected, to be copied by hand
    getSelection().selectAllChildren(text);
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
});

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
  showCopyButtons(document);
  follow();
  if (wasBusy && !document.querySelector("[data-busy]")) location.reload();
}).observe(document.getElementById("content"), { childList: true, subtree: true, attributeFilter: ["data-busy"] });

showCopyButtons(document);
follow();
