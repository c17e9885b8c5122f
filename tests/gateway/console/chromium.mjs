// Chromium for tests: reads commands as JSON lines, and answers each with a line.
//
//   {"tab": 1, "do": "open", "with": [{"colorScheme": "dark"}]}    a new tab, with cookies of its own
//   {"tab": 1, "do": "click", "with": ["text=Restart"]}            any method of playwright's Page
//   {"tab": 1, "do": "keyboard.press", "with": ["Tab"]}            or of its keyboard
//   {"tab": 1, "do": "frame.evaluate", "with": ["/view", "1 + 1"]}    any method of the frame whose URL ends so
//   {"tab": 1, "do": "cookies" | "problems" | "requests" | "pages" | "close"}
//
// Problems are what no page of ours may cause: an error or a warning on the console, which is also how
// Chromium reports what the content security policy forbids, an exception, a dialog.

import { createInterface } from 'node:readline';
import { launch, MILLISECONDS } from '../../auth/chromium.mjs';

const browser = await launch(process.argv[2]);
const tabs = new Map();

async function open(number, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const problems = [];
  const requests = [];
  page.on('request', (sent) => requests.push(sent.url()));
  page.setDefaultTimeout(MILLISECONDS);
  page.on('console', (said) => {
    if (['error', 'warning'].includes(said.type())) problems.push(`${said.text()} (${page.url()})`);
  });
  page.on('pageerror', (error) => problems.push(`exception: ${error.message}`));
  page.on('dialog', async (dialog) => {
    problems.push(`dialog: ${dialog.message()}`);
    await dialog.dismiss();
  });
  tabs.set(number, { context, page, problems, requests });
}

async function act({ tab: number, do: action, with: given }) {
  if (action === 'open') return open(number, ...given);
  const { context, page, problems, requests } = tabs.get(number);
  if (action === 'problems') return problems.splice(0);
  if (action === 'requests') return requests.splice(0);
  if (action === 'cookies') return context.cookies();
  if (action === 'close') return context.close();
  if (action === 'pages') return context.pages().map((one) => one.url());
  if (action.startsWith('frame.')) return inFrame(page, action.slice('frame.'.length), ...given);
  const path = action.split('.');
  const method = path.pop();
  const target = path.reduce((object, key) => object[key], page);
  const value = await target[method](...given);
  if (Buffer.isBuffer(value)) return value.toString('base64');
  return ['string', 'number', 'boolean'].includes(typeof value) || method === 'evaluate' ? value : null;
}

async function inFrame(page, method, ending, ...given) {
  const frame = page.frames().find((one) => one.url().endsWith(ending));
  if (!frame) throw new Error(`no frame ends with ${ending}: ${page.frames().map((one) => one.url())}`);
  const value = await frame[method](...given);
  return method === 'evaluate' ? value ?? null : null;
}

console.log('ready');
for await (const line of createInterface({ input: process.stdin })) {
  try {
    console.log(JSON.stringify({ value: (await act(JSON.parse(line))) ?? null }));
  } catch (error) {
    console.log(JSON.stringify({ error: error.message }));
  }
}
await browser.close();
