// Unpack the browser from npm: `node unpack.mjs NODE_MODULES`.

import { program } from './chromium.mjs';

await program(process.argv[2]);
