// A real browser that signs in: Chromium, driven through the pages of the authorization server.
//
// Run by `pages.py` with JSON on the command line: the URL to open, who signs in, and where the browser ends.
// Without a URL it only shows that it starts. Prints the pages it was on, one line each.

import { existsSync } from 'node:fs';

const { modules, url, user, callback } = JSON.parse(process.argv[2]);
const MILLISECONDS = 90_000;
const INSTALLED = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'];

// The browser from npm is for x64 only, and brings what it needs along if it believes to be in the cloud.
async function program() {
  if (process.arch === 'x64') {
    process.env.AWS_EXECUTION_ENV = 'AWS_Lambda_nodejs22.x';
    const { default: chromium } = await import(`${modules}/@sparticuz/chromium/build/index.js`);
    return { executablePath: await chromium.executablePath(), args: chromium.args };
  }
  const installed = INSTALLED.find(existsSync);
  if (!installed) throw new Error(`npm has no Chromium for ${process.arch}; install chromium-headless-shell`);
  return { executablePath: installed, args: ['--no-sandbox'] };
}

async function signIn(page) {
  page.setDefaultTimeout(MILLISECONDS);
  page.on('framenavigated', () => console.log(page.url().split('?')[0]));
  await page.goto(url);
  await page.fill('input[name=login]', user);
  await page.fill('input[name=password]', 'any');
  await page.click('text=Sign-in >> nth=-1');
  await page.waitForSelector('text=Continue');
  const arrived = callback && page.waitForURL((at) => String(at).startsWith(callback));
  await page.click('text=Continue');
  await arrived;
  console.log(await page.innerText('body'));
}

const { chromium: driver } = await import(`${modules}/playwright-core/index.mjs`);
const browser = await driver.launch({ ...(await program()), timeout: MILLISECONDS });
try {
  if (url) await signIn(await browser.newPage());
} finally {
  await browser.close();
}
