// Makes an open page live. Without it, every page and every form works; it just has to be reloaded.
"use strict";

const RETRY_MILLISECONDS = 5000;
const TIMES_MILLISECONDS = 10000;
const COPIED_MILLISECONDS = 2000;

// The event stream: elements with `data-live` are replaced when the server says so.

let stream = null;

function connect() {
  const url = document.body.dataset.stream;
  if (!url || stream || document.hidden) return;
  stream = new EventSource(url);
  stream.addEventListener("open", () => showConnection("live", true));
  stream.addEventListener("replace", (event) => {
    const { id, html } = JSON.parse(event.data);
    const old = document.getElementById(id);
    if (old) update(old, parsed(html));
  });
  stream.addEventListener("rows", (event) => {
    const change = JSON.parse(event.data);
    const list = document.getElementById(change.id);
    if (list) inPlace(list, () => changeRows(list, change));
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

function showConnection(text, isLive = false) {
  const place = document.getElementById("connection");
  if (!place) return;
  if (place.textContent !== text) place.textContent = text;
  place.classList.toggle("live", isLive);
}

// The markup is the server's own rendering, in which every text is escaped.
function parsed(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

// Replaces an element, or only what changed of the live elements in it.
function update(old, fresh) {
  if (old.dataset.feed !== undefined && fresh.dataset.feed !== undefined) {
    inPlace(old, () => mergeRows(old, fresh));
    return;
  }
  if (old.dataset.live !== fresh.dataset.live) {
    replace(old, fresh);
    return;
  }
  for (const inner of fresh.querySelectorAll("[data-live]")) {
    const known = document.getElementById(inner.id);
    if (known && known.dataset.live !== inner.dataset.live) replace(known, inner.cloneNode(true));
  }
}

// Lists: new rows come, and old ones go, while what the person looks at stays where it is.

function changeRows(list, { added, changed, gone }) {
  for (const [html, behind] of added) {
    const rows = document.createElement("template");
    rows.innerHTML = html;
    showTimes(rows.content);
    list.insertBefore(rows.content, document.getElementById(behind));
  }
  for (const html of changed) {
    const fresh = parsed(html);
    const old = document.getElementById(fresh.id);
    if (old) replace(old, fresh);
  }
  for (const id of gone) {
    const row = document.getElementById(id);
    if (row && !isUsed(row)) row.remove();
  }
}

// A whole list, for a page that may have missed some of its rows.
function mergeRows(list, fresh) {
  list.dataset.live = fresh.dataset.live;
  const rows = [...fresh.children];
  const wanted = new Set(rows.map((row) => row.id));
  for (const row of [...list.children]) if (!wanted.has(row.id) && !isUsed(row)) row.remove();
  let behind = null;
  for (const row of rows.reverse()) {
    const known = document.getElementById(row.id);
    if (known) replace(known, row);
    else list.insertBefore(row, behind);
    behind = row;
  }
  showTimes(list);
}

// Whether the person has opened something in a row, or is in it.
function isUsed(row) {
  return row.querySelector("details[open]") !== null || row.contains(document.activeElement);
}

function inPlace(list, change) {
  const place = [...list.children].find(isUsed) ?? firstSeen(list);
  const before = place?.getBoundingClientRect().top;
  change();
  if (place?.isConnected) window.scrollBy(0, place.getBoundingClientRect().top - before);
}

// The first row that is seen, if the list begins above the screen; else its newest rows are seen as they come.
function firstSeen(list) {
  if (list.getBoundingClientRect().top >= 0) return null;
  return [...list.children].find((row) => row.getBoundingClientRect().bottom > 0);
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

// Copy buttons: `data-copy` is the id of the text.

document.addEventListener("click", async ({ target }) => {
  const text = target.dataset.copy && document.getElementById(target.dataset.copy);
  if (!text) return;
  try {
    await navigator.clipboard.writeText(text.textContent);
    target.textContent = "Copied";
  } catch { // without HTTPS, or if the person said no: the text is selected, to be copied by keyboard
    getSelection().selectAllChildren(text);
    target.textContent = document.execCommand("copy") ? "Copied" : "Selected";
  }
  setTimeout(() => { target.textContent = "Copy"; }, COPIED_MILLISECONDS);
});

// The palette: the hits of the search page, over this one. Ctrl-K and / open it.

let palette = null;

class Palette {
  #searching = null;
  #shown = null;

  constructor() {
    this.dialog = document.createElement("dialog");
    this.dialog.id = "palette";
    this.dialog.setAttribute("aria-label", "Search");
    this.dialog.innerHTML = `<form class="stacked" method="get" action="search" role="search">
      <input type="search" name="words" aria-label="Search" placeholder="Servers, tools, calls and pages"
        autocomplete="off" spellcheck="false" enterkeyhint="go"></form><div class="hits"></div>`;
    this.field = this.dialog.querySelector("input");
    this.hits = this.dialog.querySelector(".hits");
    this.field.addEventListener("input", () => this.#search());
    this.dialog.addEventListener("keydown", (event) => this.#move(event));
    this.dialog.addEventListener("click", ({ target }) => target === this.dialog && this.dialog.close());
    this.dialog.querySelector("form").addEventListener("submit", async (event) => {
      event.preventDefault();
      await this.#search();
      this.hits.querySelector("a")?.click();
    });
    document.body.append(this.dialog);
  }

  open() {
    if (this.dialog.open) return;
    this.#shown = null; // the hits may be old
    this.dialog.showModal();
    this.field.select();
    this.#search();
  }

  // One search at a time: the words that were typed meanwhile are next.
  #search() {
    this.#searching ??= this.#searchAll().finally(() => { this.#searching = null; });
    return this.#searching;
  }

  async #searchAll() {
    while (this.#shown !== this.field.value) {
      const words = this.field.value;
      const fresh = await searched(words);
      if (fresh) this.hits.replaceChildren(...fresh.childNodes);
      else this.hits.textContent = "Not connected; reload the page.";
      showTimes(this.hits);
      this.hits.querySelector("a")?.classList.add("chosen");
      this.#shown = words;
    }
  }

  #move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step && event.key !== "Escape") return;
    event.preventDefault();
    if (!step) { // the browser would only empty the field
      this.dialog.close();
      return;
    }
    const places = [this.field, ...this.hits.querySelectorAll("a")];
    const now = places.indexOf(document.activeElement);
    places[(now + step + places.length) % places.length].focus();
  }
}

async function searched(words) {
  try {
    const answer = await fetch(`search?${new URLSearchParams({ words })}`);
    return new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("hits");
  } catch {
    return null; // there is nobody to ask
  }
}

function openPalette() {
  palette ??= new Palette();
  palette.open();
}

function isTyping(target) {
  return target.closest("input, select, textarea, [contenteditable]") !== null;
}

document.addEventListener("keydown", (event) => {
  const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
  const isSlash = event.key === "/" && isPlain && !isTyping(event.target);
  const isK = event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey;
  if ((!isSlash && !isK) || !document.getElementById("find")) return;
  event.preventDefault();
  openPalette();
});

document.getElementById("find")?.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return; // in a tab of its own
  event.preventDefault();
  openPalette();
});

// A hidden page needs no stream; a browser has only a few connections to one host.
document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
window.addEventListener("pagehide", disconnect);
window.addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  for (const form of document.forms) delete form.dataset.sent;
  palette?.dialog.close();
  connect();
});

document.documentElement.classList.add("scripted");
showTimes(document);
setInterval(() => showTimes(document), TIMES_MILLISECONDS);
connect();
