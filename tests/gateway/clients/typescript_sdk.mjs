// As python_sdk.py, with @modelcontextprotocol/client: node typescript_sdk.mjs legacy|modern URL|COMMAND...
// NODE_MODULES is the folder to import from.
import { createRequire } from 'node:module';

const require = createRequire(`${process.env.NODE_MODULES}/`);
const { Client, StreamableHTTPClientTransport } = require('@modelcontextprotocol/client');
const { StdioClientTransport } = require('@modelcontextprotocol/client/stdio');

const [era, ...target] = process.argv.slice(2);
const client = new Client(
  { name: 'typescript', version: '1.0' },
  {
    capabilities: { elicitation: { form: {} }, sampling: {} },
    versionNegotiation: { mode: era === 'legacy' ? 'legacy' : { pin: '2026-07-28' } }
  }
);
client.setRequestHandler('elicitation/create', async () => ({
  action: 'accept',
  content: { username: 'ada', email: 'ada@example.org' }
}));
client.setRequestHandler('sampling/createMessage', async () => ({
  role: 'assistant',
  content: { type: 'text', text: 'Indeed.' },
  model: 'm'
}));
const transport =
  target.length === 1
    ? new StreamableHTTPClientTransport(new URL(target[0]))
    : new StdioClientTransport({ command: target[0], args: target.slice(1), env: process.env });
await client.connect(transport);

const progress = [];
const tools = await client.listTools();
const simple = await client.callTool({ name: 'test_simple_text', arguments: {} });
await client.callTool(
  { name: 'test_tool_with_progress', arguments: {} },
  { onprogress: ({ progress: done }) => progress.push(done) }
);
const resource = await client.readResource({ uri: 'test://static-text' });
const prompt = await client.getPrompt({
  name: 'test_prompt_with_arguments',
  arguments: { arg1: 'x', arg2: 'y' }
});
const asked = await client.callTool({ name: 'test_elicitation', arguments: { message: 'Who?' } });
const sample = await client.callTool({ name: 'test_sampling', arguments: { prompt: 'Really?' } });
console.log(
  JSON.stringify({
    version: client.getNegotiatedProtocolVersion(),
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
