// The pages of tools and content: filters while one types, and sends forms without a reload.
"use strict";

const TYPING_MILLISECONDS = 200;
const VERDICT_MILLISECONDS = 400;

// The list: what is typed is searched on the server, which knows all tools; the URL says what is shown.

let listing = null;

function listWhat(search) {
  const url = new URL(location.href);
  const fields = new URLSearchParams(new FormData(search));
  for (const [name, value] of fields) {
    if (value && `${name}=${value}` !== "sort=name") url.searchParams.set(name, value);
    else url.searchParams.delete(name);
  }
  return url;
}

async function showList() {
  const search = document.getElementById("list-search");
  const url = listWhat(search);
  listing?.abort();
  listing = new AbortController();
  try {
    const asked = new URL(url);
    asked.searchParams.set("only", "list");
    const page = await pageAt(asked, { signal: listing.signal });
    const fresh = page.getElementById("list");
    if (!fresh) throw new Error("not signed in");
    document.getElementById("list").replaceWith(fresh);
    goTo(url, page, { keepsStream: true });
  } catch (error) {
    if (error.name !== "AbortError") search.submit();
  }
}

async function pageAt(url, options) {
  const answer = await fetch(url, options);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  page.address = answer.url;
  return page;
}

// Has the URL, and the stream, be those of what is shown.
function goTo(url, page, { push = false } = {}) {
  const place = `${url.pathname.split("/").pop()}${url.search}`;
  history[push ? "pushState" : "replaceState"](null, "", url);
  document.body.dataset.stream = `events/${place}`;
  disconnect();
  connect();
}

// Forms beside the list: sent in the background, so that what is typed and where one reads stays.

async function send(form, submitter) {
  const body = new URLSearchParams(new FormData(form, submitter));
  const url = submitter?.hasAttribute("formaction") ? submitter.formAction : form.action;
  const page = await pageAt(url, { method: "POST", body });
  const fresh = page.getElementById("pane");
  const address = new URL(page.address);
  if (!fresh) {
    location.href = address;
    return;
  }
  const kept = place(document.activeElement);
  await showPane(fresh);
  document.querySelector(".notices").replaceWith(page.querySelector(".notices"));
  const list = page.getElementById("list");
  if (list) update(document.getElementById("list"), list);
  address.hash = "";
  goTo(address, page, { push: address.search !== location.search });
  showTimes(document);
  // A question that came with the page has the focus already.
  const asks = document.activeElement?.closest("#questions-here");
  focusOn(fresh.querySelector("[autofocus]") || (!asks && kept && document.getElementById(kept)));
}

// An app stays as it is: a frame that is taken out of the page begins anew.
async function showPane(fresh) {
  const pane = document.getElementById("pane");
  const next = window.sameApp?.(fresh);
  if (next) {
    replaceAround(document.getElementById("app"), next, pane, fresh);
    return;
  }
  await window.closeApp?.();
  pane.replaceWith(fresh);
  window.mountApp?.();
}

function replaceAround(kept, next, old, fresh) {
  const within = [...old.children].find((one) => one.contains(kept));
  const nodes = [...fresh.childNodes];
  const at = nodes.findIndex((one) => one.contains(next));
  for (const one of [...old.childNodes]) if (one !== within) one.remove();
  within.before(...nodes.slice(0, at));
  within.after(...nodes.slice(at + 1));
  if (within !== kept) replaceAround(kept, next, within, nodes[at]);
}

function place(focused) {
  return focused?.closest("#pane") ? focused.id : "";
}

function focusOn(target) {
  if (!target) return;
  target.focus({ preventScroll: true });
  target.scrollIntoView({ block: "nearest" });
}

document.addEventListener("submit", (event) => {
  const { target: form, submitter } = event;
  if (form.id === "list-search") {
    event.preventDefault();
    showList();
  } else if (form.method === "post" && form.closest("#pane")) {
    event.preventDefault();
    if (form.dataset.sending) return;
    form.dataset.sending = "yes";
    send(form, submitter).catch(() => {
      delete form.dataset.sending;
      delete form.dataset.sent;
      showConnection("not sent; try again");
    });
  }
});

// What would be decided about the arguments as they are typed.

let foreseeing = null;

async function foresee(form) {
  const body = new URLSearchParams(new FormData(form));
  body.set("do", "foresee");
  const page = await pageAt(new URL("tools/edit", location.href), { method: "POST", body });
  const fresh = page.getElementById("verdict");
  if (fresh && form.isConnected) document.getElementById("verdict").replaceWith(fresh);
}

const later = {};

function soon(name, milliseconds, work) {
  clearTimeout(later[name]);
  later[name] = setTimeout(work, milliseconds);
}

document.addEventListener("input", ({ target }) => {
  if (target.closest("#list-search")) {
    soon("list", TYPING_MILLISECONDS, showList);
    return;
  }
  const form = target.closest("#call-form");
  if (!form || target.classList.contains("chooses")) return;
  soon("verdict", VERDICT_MILLISECONDS, () => {
    foreseeing = (foreseeing || Promise.resolve()).then(() => foresee(form)).catch(() => {});
  });
});

// The fields of another kind are shown as soon as it is chosen.
document.addEventListener("change", ({ target }) => {
  if (target.classList.contains("chooses")) target.parentElement.querySelector("button").click();
});

// Keys: Ctrl-Enter sends from a text with several lines, where Enter begins one more.
document.addEventListener("keydown", (event) => {
  const form = event.target.closest("#call-form, #questions-here form");
  if (form && event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    form.requestSubmit(form.querySelector("button.main"));
  }
});

// A question gets the focus if nothing else is typed into meanwhile. A question of an app does not: a key that
// is meant for the app would answer it.
let held = "";

new MutationObserver(() => {
  const cards = [...document.querySelectorAll("#questions-here .card")];
  const asked = cards.find((one) => !one.dataset.seen);
  // Where one question was, the next one may be: a second click would answer that.
  const now = cards.map((one) => one.id).join();
  if (document.getElementById("app") && (asked || now !== held)) cards.forEach(holdBack);
  held = now;
  if (!asked) return;
  for (const one of cards) one.dataset.seen = "yes";
  if (document.getElementById("app")) return;
  const focused = document.activeElement;
  if (focused && focused.closest("input, textarea, select")) return;
  focusOn(asked.querySelector("input:not([type=hidden]), select, textarea, button.main") || asked);
}).observe(document.getElementById("content"), { childList: true, subtree: true });

window.addEventListener("popstate", () => location.reload());
