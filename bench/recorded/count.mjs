// The tokens of each text of a JSON list on stdin, by o200k_base and by the tokenizer of Claude 2.
import { createRequire } from "node:module";
import { text } from "node:stream/consumers";

const require = createRequire(`${process.argv[2]}/`);
const claude = require("@anthropic-ai/tokenizer").getTokenizer(); // its countTokens loads it again for each text
const counters = [
  require("gpt-tokenizer/encoding/o200k_base").countTokens,
  (text) => claude.encode(text.normalize("NFKC"), "all").length,
];
const texts = JSON.parse(await text(process.stdin));
console.log(JSON.stringify(texts.map((one) => counters.map((count) => count(one)))));
