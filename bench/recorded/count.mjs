// The tokens of each text of a JSON list on stdin, by o200k_base and by the tokenizer of Claude 2.
import { createRequire } from "node:module";
import { text } from "node:stream/consumers";

const require = createRequire(`${process.argv[2]}/`);
const counters = [
  require("gpt-tokenizer/encoding/o200k_base").countTokens,
  require("@anthropic-ai/tokenizer").countTokens,
];
const texts = JSON.parse(await text(process.stdin));
console.log(JSON.stringify(texts.map((one) => counters.map((count) => count(one)))));
