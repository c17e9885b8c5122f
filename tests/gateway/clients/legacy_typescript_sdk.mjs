// As typescript_sdk.mjs, with @modelcontextprotocol/sdk, which knows the legacy era only.
import { createRequire } from 'node:module';

const require = createRequire(`${process.env.NODE_MODULES}/`);
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
const { CreateMessageRequestSchema, ElicitRequestSchema } = require('@modelcontextprotocol/sdk/types.js');

const [, ...target] = process.argv.slice(2);
const client = new Client(
  { name: 'legacy-typescript', version: '1.0' },
  { capabilities: { elicitation: { form: {} }, sampling: {} } }
);
client.setRequestHandler(ElicitRequestSchema, async () => ({
  action: 'accept',
  content: { username: 'ada', email: 'ada@example.org' }
}));
client.setRequestHandler(CreateMessageRequestSchema, async () => ({
  role: 'assistant',
  content: { type: 'text', text: 'Indeed.' },
  model: 'm'
}));
// The version is told to the transport, and to nobody else.
let version;
const transport =
  target.length === 1
    ? new StreamableHTTPClientTransport(new URL(target[0]))
    : new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env });
const inherited = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (negotiated) => {
  version = negotiated;
  inherited?.(negotiated);
};
await client.connect(transport);

const progress = [];
const tools = await client.listTools();
const simple = await client.callTool({ name: 'test_simple_text', arguments: {} });
await client.callTool({ name: 'test_tool_with_progress', arguments: {} }, undefined, {
  onprogress: ({ progress: done }) => progress.push(done)
});
const resource = await client.readResource({ uri: 'test://static-text' });
const prompt = await client.getPrompt({
  name: 'test_prompt_with_arguments',
  arguments: { arg1: 'x', arg2: 'y' }
});
const asked = await client.callTool({ name: 'test_elicitation', arguments: { message: 'Who?' } });
const sample = await client.callTool({ name: 'test_sampling', arguments: { prompt: 'Really?' } });
console.log(
  JSON.stringify({
    version,
    tools: tools.tools.map(({ name }) => name).sort(),
    call: simple.content[0].text,
    progress,
    resource: resource.contents[0].text,
    prompt: prompt.messages[0].content.text,
    elicitation: asked.content[0].text,
    sampling: sample.content[0].text
  })
);
await client.close();
