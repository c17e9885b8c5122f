// A real browser: Chromium from npm, or the machine's own.

import { existsSync } from 'node:fs';

export const MILLISECONDS = 90_000;
const INSTALLED = ['/usr/bin/chromium-headless-shell', '/usr/bin/chromium'];

// The browser from npm is for x64 only, and brings what it needs along if it believes to be in the cloud.
async function program(modules) {
  if (process.arch === 'x64') {
    process.env.AWS_EXECUTION_ENV = 'AWS_Lambda_nodejs22.x';
    const { default: chromium } = await import(`${modules}/@sparticuz/chromium/build/index.js`);
    return { executablePath: await chromium.executablePath(), args: chromium.args };
  }
  const installed = INSTALLED.find(existsSync);
  if (!installed) throw new Error(`npm has no Chromium for ${process.arch}; install chromium-headless-shell`);
  return { executablePath: installed, args: ['--no-sandbox'] };
}

// `modules` is the folder of playwright-core.
export async function launch(modules) {
  const { chromium: driver } = await import(`${modules}/playwright-core/index.mjs`);
  return driver.launch({ ...(await program(modules)), timeout: MILLISECONDS });
}
