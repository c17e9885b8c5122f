// A real browser that signs in: Chromium, driven through the pages of the authorization server.
//
// Run by `pages.py` with JSON on the command line: the URL to open, who signs in, and where the browser ends.
// Without a URL it only shows that it starts. Prints the pages it was on, one line each.

import { launch, MILLISECONDS } from './chromium.mjs';

const { modules, url, user, callback } = JSON.parse(process.argv[2]);

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

const browser = await launch(modules);
try {
  if (url) await signIn(await browser.newPage());
} finally {
  await browser.close();
}
