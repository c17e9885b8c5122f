// Makes an open page live. Without it, every page and every form works; it just has to be reloaded.
"use strict";

const RETRY_MILLISECONDS = 5000;
const TIMES_MILLISECONDS = 10000;

// The event stream: elements with `data-live` are replaced when the server says so.

let stream = null;

function connect() {
  const url = document.body.dataset.stream;
  if (!url || stream || document.hidden) return;
  stream = new EventSource(url);
  stream.addEventListener("open", () => showConnection(""));
  stream.addEventListener("replace", (event) => {
    const { id, html } = JSON.parse(event.data);
    const old = document.getElementById(id);
    if (old) update(old, parsed(html));
  });
  stream.addEventListener("error", () => {
    showConnection("not connected");
    if (stream && stream.readyState === EventSource.CLOSED) { // refused; the page itself says why
      showConnection("not connected; reload the page");
      disconnect();
      setTimeout(connect, RETRY_MILLISECONDS);
    }
  });
}

function disconnect() {
  if (stream) stream.close();
  stream = null;
}

function showConnection(text) {
  const place = document.getElementById("connection");
  if (place && place.textContent !== text) place.textContent = text;
}

// The markup is the server's own rendering, in which every text is escaped.
function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

// Replaces an element, or only what changed of the live elements in it.
function update(old, fresh) {
  if (old.dataset.live !== fresh.dataset.live) {
    replace(old, fresh);
    return;
  }
  for (const inner of fresh.querySelectorAll("[data-live]")) {
    const known = document.getElementById(inner.id);
    if (known && known.dataset.live !== inner.dataset.live) replace(known, inner.cloneNode(true));
  }
}

// What the person opened stays open, what they typed stays typed, and the focus stays where it was.
function replace(old, fresh) {
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const place = focused && placeOf(old, focused);
  for (const opened of old.querySelectorAll("details[id][open]")) {
    const same = fresh.querySelector(`details[id="${CSS.escape(opened.id)}"]`);
    if (same) same.open = same.dataset.kept = true;
  }
  for (const typed of old.querySelectorAll("input[id], select[id], textarea[id]")) {
    const same = fresh.querySelector(`[id="${CSS.escape(typed.id)}"]`);
    if (same && same.tagName === typed.tagName) [same.value, same.checked] = [typed.value, typed.checked];
  }
  const scrolled = [...old.querySelectorAll("pre")].map((one) => one.scrollTop);
  old.replaceWith(fresh);
  [...fresh.querySelectorAll("pre")].forEach((one, index) => { one.scrollTop = scrolled[index] || 0; });
  if (place) place(fresh)?.focus({ preventScroll: true });
  showTimes(fresh);
}

// How to find the element that had the focus in the new markup: by its id or label, or as the same one in order.
function placeOf(root, focused) {
  const selector = "a, button, input, select, textarea, summary, [tabindex]";
  if (focused.id) return (fresh) => fresh.querySelector(`#${CSS.escape(focused.id)}`);
  const label = focused.getAttribute("aria-label");
  if (label) return (fresh) => fresh.querySelector(`${focused.tagName}[aria-label="${CSS.escape(label)}"]`);
  const index = [...root.querySelectorAll(selector)].indexOf(focused);
  return (fresh) => fresh.querySelectorAll(selector)[index];
}

// Times: how long ago.

const UNITS = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];

function ago(seconds) {
  for (const [unit, size] of UNITS) {
    if (seconds >= size) return `${Math.floor(seconds / size)} ${unit} ago`;
  }
  return "now";
}

function showTimes(root) {
  for (const time of root.querySelectorAll("time[datetime]")) {
    const text = ago((Date.now() - Date.parse(time.dateTime)) / 1000);
    if (time.textContent !== text) time.textContent = text;
  }
}

// The last lines of a text that a person opens are the ones that matter.
document.addEventListener("toggle", ({ target }) => {
  const text = target.open && !target.dataset.kept && target.querySelector("pre");
  if (text) text.scrollTop = text.scrollHeight;
  delete target.dataset.kept;
}, true);

// A form is sent once: a second press while the first is on its way would do it twice.

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method !== "post") return;
  if (form.dataset.sent) event.preventDefault();
  form.dataset.sent = "yes";
});

// A hidden page needs no stream; a browser has only a few connections to one host.
document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
window.addEventListener("pagehide", disconnect);
window.addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  for (const form of document.forms) delete form.dataset.sent;
  connect();
});

showTimes(document);
setInterval(() => showTimes(document), TIMES_MILLISECONDS);
connect();
