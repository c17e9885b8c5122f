// Shows the app of a tool (MCP Apps). This is the host's side of its messages; the frame is on another origin.
"use strict";

const APP_PROTOCOL = "2026-01-26";
const TALLEST = 800;
const LONGEST_MESSAGE = 1000000;
const MOST_MESSAGES = 300; // in a second
const MOST_LINES = 50;
const MOST_QUEUED = 64;
const APP_REQUESTS = 2; // at a time: the browser has few connections to the console, and the person needs one
const TEARDOWN_MILLISECONDS = 500;
const UNSEEN_MILLISECONDS = 1000; // before a button that an app brought up can be pressed

const REFUSED = -32000;
const NO_METHOD = -32601;
const ASKS = { camera: "your camera", microphone: "your microphone", geolocation: "your location", clipboardWrite: "writing to your clipboard" };
const USES = { connectDomains: "connects to", resourceDomains: "loads from", frameDomains: "shows pages of", baseUriDomains: "has links below" };

class AppHost {
  #requests = new Map([
    ["ui/initialize", () => this.#initialized()],
    ["ping", () => ({})],
    ["tools/call", ({ name, arguments: given }, signal) => this.#later("call", { name, arguments: given }, signal)],
    ["resources/read", ({ uri }, signal) => this.#later("read", { uri }, signal)],
    ["ui/open-link", ({ url }) => this.#openLink(url)],
    ["ui/message", ({ content }) => this.#note("message for the model", shortened(content))],
    ["ui/update-model-context", (params) => this.#note("context for the model", shortened(params))],
    ["ui/request-display-mode", () => ({ mode: "inline" })],
  ]);
  #notifications = new Map([
    ["ui/notifications/initialized", () => this.#begin()],
    ["ui/notifications/size-changed", ({ height }) => this.#resize(height)],
    ["ui/notifications/request-teardown", () => this.close()],
    ["notifications/message", ({ level, data }) => this.#note(`log, ${shortened(level)}`, shortened(data))],
    ["notifications/cancelled", ({ requestId }) => this.#running.get(requestId)?.abort()],
  ]);
  #running = new Map();
  #waiting = [];
  #active = 0;
  #answers = new Map();
  #number = 0;
  #second = 0;
  #messages = 0;
  #listening = new AbortController();
  #frame = null;
  #opened = null;
  #height = 0;

  constructor(place) {
    this.place = place;
    this.view = place.querySelector(".app-view");
    this.facts = place.querySelector(".app-facts");
    this.asks = place.querySelector("#app-asks");
    this.lines = place.querySelector(".app-lines");
  }

  // The frame

  async open(permissions = []) {
    const answer = await this.#ask("open", { trial: Number(this.place.dataset.trial), permissions });
    if (this.#listening.signal.aborted) return;
    if (answer.error) {
      this.#say(answer.error.message, "problem");
      return;
    }
    this.#opened = answer.result;
    const { signal } = this.#listening;
    addEventListener("message", (event) => this.#receive(event), { signal });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#tellContext(), { signal });
    addEventListener("resize", () => this.#tellContext(), { signal });
    this.#showFacts();
    this.#frame = document.createElement("iframe");
    this.#frame.title = `The app of ${this.#opened.server}`;
    this.#frame.setAttribute("sandbox", "allow-scripts allow-same-origin allow-forms");
    this.#frame.allow = this.#opened.allow;
    this.#frame.referrerPolicy = "no-referrer";
    this.#frame.src = this.#opened.url;
    this.view.classList.toggle("bordered", this.#opened.border);
    this.view.replaceChildren(this.#frame);
  }

  async close() {
    if (this.#listening.signal.aborted) return;
    const gone = this.#frame && this.#request("ui/resource-teardown", { reason: "the page closes it" });
    await Promise.race([gone, new Promise((done) => { setTimeout(done, TEARDOWN_MILLISECONDS); })]);
    this.stop();
    this.#say("The app is closed. Call the tool again to open it.", "faint");
  }

  // Without a word to the app: the page is left, or the app does what it must not.
  stop() {
    this.#listening.abort();
    for (const one of this.#running.values()) one.abort();
    this.#waiting = [];
    this.view.replaceChildren();
    this.asks.replaceChildren();
    if (this.#opened) this.#ask("close", {}, { keepalive: true });
  }

  #showFacts() {
    const { sources, ignored, asks, granted, server } = this.#opened;
    const parts = [`From ${server}.`];
    for (const [kind, found] of Object.entries(sources)) parts.push(`It ${USES[kind]} ${found.join(", ")}.`);
    if (ignored.length) parts.push(`Not allowed: ${ignored.join(", ")}.`);
    const may = Object.keys(granted).map((name) => ASKS[name]);
    if (may.length) parts.push(`It may use ${may.join(", ")}.`);
    const line = made("p", parts.join(" "), "faint breakable");
    this.facts.replaceChildren(line);
    if (!asks.length) return;
    const button = made("button", `Allow ${asks.map((name) => ASKS[name]).join(", ")}`, "small");
    button.addEventListener("click", () => replaceApp(this.place, [...Object.keys(granted), ...asks]));
    line.append(" It asks for more: ", button);
  }

  #say(text, kind) {
    this.view.replaceChildren(made("p", text, kind));
  }

  // Messages

  #post(message) {
    this.#frame?.contentWindow?.postMessage({ jsonrpc: "2.0", ...message }, this.#opened.origin);
  }

  #request(method, params) {
    const id = `host-${++this.#number}`;
    this.#post({ id, method, params });
    return new Promise((done) => { this.#answers.set(id, done); });
  }

  #receive({ source, origin, data }) {
    if (!this.#frame || source !== this.#frame.contentWindow || origin !== this.#opened.origin) return;
    if (this.#isFlood()) {
      this.stop();
      this.#say("The app sent too many messages, so it was closed.", "problem");
      return;
    }
    const message = plain(data);
    if (message?.jsonrpc !== "2.0") return;
    const { id, method } = message;
    const params = typeof message.params === "object" && message.params !== null ? message.params : {};
    if (typeof method !== "string") this.#answered(message);
    else if (id === undefined) this.#notifications.get(method)?.(params);
    else if (typeof id === "string" || typeof id === "number") this.#serve(id, method, params);
  }

  #isFlood() {
    const second = Math.floor(performance.now() / 1000);
    if (second !== this.#second) [this.#second, this.#messages] = [second, 0];
    this.#messages += 1;
    return this.#messages > MOST_MESSAGES;
  }

  #answered({ id }) {
    this.#answers.get(id)?.();
    this.#answers.delete(id);
  }

  async #serve(id, method, params) {
    const request = this.#requests.get(method);
    if (!request) {
      this.#post({ id, error: { code: NO_METHOD, message: `this host has no ${method.slice(0, 100)}` } });
      return;
    }
    if (this.#running.has(id)) return;
    const running = new AbortController();
    this.#running.set(id, running);
    try {
      this.#post({ id, result: await request(params, running.signal) });
    } catch (error) {
      this.#post({ id, error: { code: error.code ?? REFUSED, message: error.message } });
    } finally {
      this.#running.delete(id);
    }
  }

  // Requests to the console

  async #ask(what, params, options = {}) {
    const body = JSON.stringify({ frame: this.#opened?.frame, ...params });
    const headers = { "content-type": "application/json" };
    try {
      const answer = await fetch(`app/${what}`, { method: "POST", headers, body, ...options });
      return await answer.json();
    } catch (error) {
      const message = error.name === "AbortError" ? "it was canceled" : "the console does not answer";
      return { error: { code: REFUSED, message } };
    }
  }

  // In their turn.
  async #later(what, params, signal) {
    if (this.#waiting.length >= MOST_QUEUED) throw refused("the app asks for too much at once");
    if (this.#active >= APP_REQUESTS) await new Promise((turn) => { this.#waiting.push(turn); });
    this.#active += 1;
    try {
      const { error, result } = await this.#ask(what, params, { signal });
      if (error) throw refused(error.message, error.code);
      return result;
    } finally {
      this.#active -= 1;
      this.#waiting.shift()?.();
    }
  }

  // What the app is told

  #initialized() {
    const { version, sources, granted } = this.#opened;
    return {
      protocolVersion: APP_PROTOCOL,
      hostInfo: { name: "toolbus", version },
      hostCapabilities: {
        openLinks: {},
        serverTools: {},
        serverResources: {},
        logging: {},
        message: { text: {} },
        updateModelContext: { text: {}, structuredContent: {} },
        sandbox: { csp: sources, permissions: granted },
      },
      hostContext: { ...this.#context(), toolInfo: { tool: this.#opened.tool } },
    };
  }

  #context() {
    const chosen = document.documentElement.dataset.theme;
    const isDark = chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    return {
      theme: isDark ? "dark" : "light",
      displayMode: "inline",
      availableDisplayModes: ["inline"],
      containerDimensions: { width: this.view.clientWidth, maxHeight: TALLEST },
      locale: navigator.language,
      timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone,
      userAgent: `toolbus/${this.#opened.version}`,
      platform: "web",
      deviceCapabilities: { touch: navigator.maxTouchPoints > 0, hover: matchMedia("(hover: hover)").matches },
    };
  }

  #tellContext() {
    this.#post({ method: "ui/notifications/host-context-changed", params: this.#context() });
  }

  // The app is ready: it gets the arguments of the call, and its result when that is there.
  async #begin() {
    const frame = this.#frame;
    this.#post({ method: "ui/notifications/tool-input", params: { arguments: this.#opened.arguments } });
    const { error, result } = await this.#ask("result", {}, { signal: this.#listening.signal });
    if (frame !== this.#frame || this.#listening.signal.aborted) return;
    if (result?.toolResult) this.#post({ method: "ui/notifications/tool-result", params: result.toolResult });
    else this.#post({ method: "ui/notifications/tool-cancelled", params: { reason: error?.message ?? result.canceled } });
  }

  // What the app asks of the page

  // Nothing moves while a person answers a question.
  #resize(height) {
    if (!Number.isFinite(height)) return;
    this.#height = Math.min(TALLEST, Math.max(40, Math.ceil(height)));
    if (!document.querySelector("#questions-here .card") && !this.asks.firstChild) this.settle();
  }

  settle() {
    if (this.#frame && this.#height) this.#frame.style.height = `${this.#height}px`;
  }

  #openLink(given) {
    const url = URL.canParse(given) ? new URL(given) : null;
    const isSafe = url && ["http:", "https:"].includes(url.protocol) && !url.username && !url.password;
    if (!isSafe || this.asks.firstChild) return { isError: true };
    const link = made("a", "Open it in a new tab", "button main");
    const no = made("button", "Do not open it", "");
    [link.href, link.target, link.rel, no.type] = [url.href, "_blank", "noopener noreferrer", "button"];
    const card = made("div", "", "card entry");
    const actions = made("div", "", "actions");
    actions.append(link, no);
    card.append(made("h2", "The app wants to open a page", ""), made("p", url.href, "breakable"), actions);
    holdBack(card);
    this.asks.append(card);
    return new Promise((done) => {
      const end = (isError) => {
        card.remove();
        this.settle();
        done(isError ? { isError } : {});
      };
      link.addEventListener("click", () => setTimeout(() => end(false)));
      no.addEventListener("click", () => end(true));
    });
  }

  #note(what, text) {
    this.lines.append(made("li", `${what}: ${text}`, "breakable"));
    while (this.lines.children.length > MOST_LINES) this.lines.firstChild.remove();
    this.lines.closest("details").hidden = false;
    return {};
  }
}

function refused(message, code = REFUSED) {
  return Object.assign(new Error(message), { code });
}

function made(tag, text, kind) {
  const element = document.createElement(tag);
  element.textContent = text;
  if (kind) element.className = kind;
  return element;
}

function shortened(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value) ?? "";
  return text.length > 500 ? `${text.slice(0, 500)}...` : text;
}

// As JSON: what is no JSON, or too long, is no message.
function plain(data) {
  try {
    const text = JSON.stringify(data);
    return text.length > LONGEST_MESSAGE ? null : JSON.parse(text);
  } catch {
    return null;
  }
}

// An app can bring up a question at the moment at which a person clicks or presses a key somewhere else.
function holdBack(card) {
  card.inert = true;
  clearTimeout(heldBack.get(card));
  heldBack.set(card, setTimeout(() => { card.inert = false; }, UNSEEN_MILLISECONDS));
}

const heldBack = new WeakMap();

let app = null;

// Shows the app of the page, if that has one.
function mountApp() {
  const place = document.getElementById("app");
  if (app?.place === place) return;
  app = place && new AppHost(place);
  app?.open();
}

async function replaceApp(place, permissions) {
  app?.stop();
  app = new AppHost(place);
  await app.open(permissions);
}

// The app of a page that is to be shown next, if it is the one that is open.
function sameApp(fresh) {
  const next = fresh.querySelector("#app");
  return app && next && app.place.isConnected && next.dataset.trial === app.place.dataset.trial ? next : null;
}

async function closeApp() {
  const open = app;
  app = null;
  await open?.close();
}

new MutationObserver(() => {
  if (app && !document.querySelector("#questions-here .card, #app-asks .card")) app.settle();
}).observe(document.getElementById("content"), { childList: true, subtree: true });

addEventListener("pagehide", () => {
  app?.stop();
  app = null;
});
addEventListener("pageshow", ({ persisted }) => persisted && mountApp());
mountApp();
