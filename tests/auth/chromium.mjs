// A real browser: Chromium from npm, or the machine's own.

import { existsSync } from 'node:fs';

export const MILLISECONDS = 300_000; // as PATIENCE in tests/patience.py
const INSTALLED = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'];

// The browser from npm is for x64 only, and brings what it needs along if it believes to be in the cloud.
export async function program(modules) {
  if (process.arch === 'x64') {
    process.env.AWS_EXECUTION_ENV = 'AWS_Lambda_nodejs22.x';
    // Its own fonts count only in /tmp/fonts; without any, elements with text are empty for playwright.
    if (existsSync('/etc/fonts/fonts.conf')) process.env.FONTCONFIG_PATH ??= '/etc/fonts';
    const { default: chromium } = await import(`${modules}/@sparticuz/chromium/build/index.js`);
    return chromium.executablePath();
  }
  const installed = INSTALLED.find(existsSync);
  if (!installed) throw new Error(`npm has no Chromium for ${process.arch}; install chromium-headless-shell`);
  return installed;
}

// Without a GPU, drawing with one in software would take most of the time; no page of a test is elsewhere.
// Names below toolbus.test are for tests of proxies.
const NAMES = 'MAP *.toolbus.test 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost';
const ARGUMENTS = ['--no-sandbox', '--disable-gpu', `--host-resolver-rules=${NAMES}`];

// `modules` is the folder of playwright-core.
export async function launch(modules) {
  const { chromium: driver } = await import(`${modules}/playwright-core/index.mjs`);
  return driver.launch({ executablePath: await program(modules), args: ARGUMENTS, timeout: MILLISECONDS });
}
