// What the official Anthropic client for Node expects of a server. Usage: node anthropic_client.mjs URL
import assert from 'node:assert/strict';
import Anthropic from '@anthropic-ai/sdk';

const client = new Anthropic({ baseURL: process.argv[2], apiKey: 'any', maxRetries: 2 });
const tools = [{ name: 'add', description: 'Adds',
  input_schema: { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] } }];
const calls = 'call add {"a": 1} and add {"a": 3}';
const asks = (content, more = {}) => ({ model: 'm', max_tokens: 1000, messages: [{ role: 'user', content }], ...more });

const checks = {
  async whole() {
    const answer = await client.messages.create(asks('say hello'));
    assert.equal(answer.content[0].text, 'hello');
    assert.equal(answer.stop_reason, 'end_turn');
  },
  async stream() {
    const final = await client.messages.stream(asks('say one two')).finalMessage();
    assert.equal(final.content[0].text, 'one two');
    assert.equal(final.usage.output_tokens, 8);
  },
  async calls() {
    const first = await client.messages.stream(asks(calls, { tools })).finalMessage();
    const used = first.content.filter((b) => b.type === 'tool_use');
    assert.deepEqual(used.map((b) => b.input), [{ a: 1 }, { a: 3 }]);
    const after = await client.messages.create({ ...asks(calls, { tools }), messages: [
      { role: 'user', content: calls }, { role: 'assistant', content: first.content },
      { role: 'user', content: used.map((b) => ({ type: 'tool_result', tool_use_id: b.id, content: '3' })) }] });
    assert.match(after.content[0].text, /^Done/);
  },
  async thinking() {
    const stream = client.messages.stream(asks('think deep then short', { thinking: { type: 'adaptive' } }));
    const answer = await stream.finalMessage();
    assert.deepEqual(answer.content.map((b) => b.type), ['thinking', 'text']);
    assert.equal(answer.content[0].thinking, 'deep');
  },
  async count() {
    const counted = await client.messages.countTokens({ model: 'm', messages: asks('hi').messages });
    assert.ok(counted.input_tokens > 10);
  },
  async errors() {
    await assert.rejects(client.messages.create(asks('x'.repeat(700000))),
      (e) => e instanceof Anthropic.BadRequestError && /prompt is too long/.test(e.message));
  },
  async abort() {
    const stream = client.messages.stream(asks('long 100000', { max_tokens: 500000 }));
    for await (const _ of stream) break;
    stream.abort();
    await checks.whole();
  },
};
for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log('  ok', name);
}
