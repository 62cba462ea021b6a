// What the official openai client for Node expects of a server. Usage: node openai_client.mjs URL
import assert from 'node:assert/strict';
import OpenAI from 'openai';

const client = new OpenAI({ baseURL: process.argv[2] + 'v1', apiKey: 'any', maxRetries: 2 });
const parameters = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] };
const tools = [{ type: 'function', function: { name: 'add', description: 'Adds', parameters } }];
const calls = 'call add {"a": 1} and add {"a": 3}';
const user = (content) => [{ role: 'user', content }];
const chat = (content, more = {}) => client.chat.completions.create({ model: 'm', messages: user(content), ...more });

const checks = {
  async chatWhole() {
    const answer = await chat('say hello');
    assert.equal(answer.choices[0].message.content, 'hello');
    assert.equal(answer.usage.completion_tokens, 6);
  },
  async chatStream() {
    let text = '', usage;
    for await (const chunk of await chat('say one two', { stream: true, stream_options: { include_usage: true } })) {
      text += chunk.choices[0]?.delta?.content ?? '';
      usage = chunk.usage ?? usage;
    }
    assert.equal(text, 'one two');
    assert.equal(usage.completion_tokens, 8);
  },
  async chatCalls() {
    const runner = client.chat.completions.stream({ model: 'm', messages: user(calls), tools });
    const message = (await runner.finalChatCompletion()).choices[0].message;
    assert.deepEqual(message.tool_calls.map((c) => JSON.parse(c.function.arguments)), [{ a: 1 }, { a: 3 }]);
    const results = message.tool_calls.map((c) => ({ role: 'tool', tool_call_id: c.id, content: '3' }));
    const after = await client.chat.completions.create(
      { model: 'm', tools, messages: [...user(calls), message, ...results] });
    assert.match(after.choices[0].message.content, /^Done/);
  },
  async responses() {
    const answer = await client.responses.create({ model: 'm', input: 'say hello' });
    assert.equal(answer.output_text, 'hello');
    const flat = [{ type: 'function', name: 'add', parameters, strict: false }];
    const stream = client.responses.stream({ model: 'm', input: calls, tools: flat });
    const final = await stream.finalResponse();
    assert.deepEqual(final.output.filter((i) => i.type === 'function_call').map((i) => i.arguments),
      ['{"a":1}', '{"a":3}']);
  },
  async errors() {
    await assert.rejects(chat('hi', { response_format: { type: 'json_object' } }),
      (e) => e instanceof OpenAI.BadRequestError && e.param === 'response_format');
    await assert.rejects(chat('x'.repeat(700000)), (e) => e.code === 'context_length_exceeded');
  },
  async abort() {
    const stream = await chat('long 100000', { stream: true });
    let seen = 0;
    for await (const _ of stream) if (++seen === 5) break;
    stream.controller.abort();
    await checks.chatWhole();
  },
  async models() {
    assert.deepEqual((await client.models.list()).data.map((m) => m.id), ['scripted-1']);
  },
};
for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log('  ok', name);
}
