"""What the official openai client for Python expects of a server. Usage: openai_client.py URL"""
import json
import sys

import openai

URL = sys.argv[1]
client = openai.OpenAI(base_url=URL + "v1", api_key="any", max_retries=2)
TOOL = {"type": "function", "function": {"name": "add", "description": "Adds", "parameters": {
    "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}}}
CALLS = 'call add {"a": 1, "b": 2} and add {"a": 3, "b": 4}'


def user(text):
    return [{"role": "user", "content": text}]


def chat_whole():
    answer = client.chat.completions.create(model="m", messages=user("say hello"), logprobs=True, top_logprobs=2)
    assert answer.choices[0].message.content == "hello", answer
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage.completion_tokens == 6 and answer.usage.total_tokens == answer.usage.prompt_tokens + 6
    assert len(answer.choices[0].logprobs.content[0].top_logprobs) == 2


def chat_stream():
    chunks = list(client.chat.completions.create(model="m", messages=user("say one two"), stream=True,
                                                 stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "one two"
    assert chunks[-1].usage.completion_tokens == 8
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "stop"


def chat_calls():
    answer = client.chat.completions.create(model="m", messages=user(CALLS), tools=[TOOL])
    calls = answer.choices[0].message.tool_calls
    assert [json.loads(c.function.arguments) for c in calls] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}], calls
    assert answer.choices[0].finish_reason == "tool_calls" and len({c.id for c in calls}) == 2
    history = user(CALLS) + [answer.choices[0].message] + [
        {"role": "tool", "tool_call_id": c.id, "content": "3"} for c in calls]
    after = client.chat.completions.create(model="m", messages=history, tools=[TOOL])
    assert after.choices[0].message.content.startswith("Done"), after
    one = client.chat.completions.create(model="m", messages=user(CALLS), tools=[TOOL], parallel_tool_calls=False)
    assert len(one.choices[0].message.tool_calls) == 1


def chat_calls_streamed_with_helper():
    with client.chat.completions.stream(model="m", messages=user(CALLS), tools=[TOOL]) as stream:
        for _ in stream:
            pass
        final = stream.get_final_completion()
    assert [c.function.name for c in final.choices[0].message.tool_calls] == ["add", "add"]


def tool_choice():
    for choice in ("required", {"type": "function", "function": {"name": "add"}}):
        answer = client.chat.completions.create(model="m", messages=user('call add {"a": 1, "b": 2}'), tools=[TOOL],
                                                tool_choice=choice)
        assert answer.choices[0].message.tool_calls[0].function.name == "add", answer
    none = client.chat.completions.create(model="m", messages=user(CALLS), tools=[TOOL], tool_choice="none")
    assert not none.choices[0].message.tool_calls


def reasoning():
    answer = client.chat.completions.create(model="m", messages=user("think deep then short"))
    assert answer.choices[0].message.reasoning_content == "deep", answer
    assert answer.choices[0].message.content == "short"


def several_and_stop():
    answer = client.chat.completions.create(model="m", messages=user("say a STOP b"), n=2, stop=["STOP"], seed=3)
    assert [c.message.content for c in answer.choices] == ["a ", "a "], answer


def cached_tokens():
    question = user("say something that is long enough for the cache")
    client.chat.completions.create(model="m", messages=question)
    again = client.chat.completions.create(model="m", messages=question)
    assert again.usage.prompt_tokens_details.cached_tokens > 0, again.usage


def completions():
    answer = client.completions.create(model="m", prompt="abc", max_tokens=3)
    assert answer.choices[0].text == "def" and answer.choices[0].finish_reason == "length", answer
    text = "".join(c.choices[0].text for c in client.completions.create(model="m", prompt="abc", max_tokens=3,
                                                                        stream=True) if c.choices)
    assert text == "def", text


def responses():
    answer = client.responses.create(model="m", input="say hello")
    assert answer.output_text == "hello" and answer.status == "completed", answer
    tools = [{"type": "function", "name": "add", "parameters": TOOL["function"]["parameters"], "strict": False}]
    called = client.responses.create(model="m", input=CALLS, tools=tools)
    calls = [item for item in called.output if item.type == "function_call"]
    assert [json.loads(c.arguments)["a"] for c in calls] == [1, 3], called
    history = [{"role": "user", "content": CALLS}] + [item.model_dump() for item in called.output] + [
        {"type": "function_call_output", "call_id": c.call_id, "output": "3"} for c in calls]
    assert client.responses.create(model="m", input=history, tools=tools).output_text.startswith("Done")


def responses_stream():
    text, kinds = "", []
    for event in client.responses.create(model="m", input="think why then one two", stream=True):
        kinds.append(event.type)
        if event.type == "response.output_text.delta":
            text += event.delta
    assert text == "one two", text
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
    with client.responses.stream(model="m", input="say one two") as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_text == "one two"


def token_ids():
    answer = client.chat.completions.create(model="m", messages=user("say ab"), extra_body={"return_token_ids": True})
    choice = answer.choices[0]
    assert choice.token_ids[:2] == [97, 98] and choice.policy_versions == [1, 1, 1], answer
    assert len(answer.prompt_token_ids) == answer.usage.prompt_tokens


def errors():
    try:
        client.chat.completions.create(model="m", messages=user("hi"), response_format={"type": "json_object"})
        raise AssertionError("response_format was not refused")
    except openai.BadRequestError as error:
        assert error.body["param"] == "response_format", error.body
    try:
        client.chat.completions.create(model="m", messages=user("x" * 700_000))
        raise AssertionError("a prompt that does not fit was not refused")
    except openai.BadRequestError as error:
        assert error.code == "context_length_exceeded", error.body
    try:
        client.get("/nothing", cast_to=object)
        raise AssertionError("a path that does not exist was answered")
    except openai.NotFoundError:
        pass


def retries():
    # 20 at once where 16 are allowed: the client comes back after Retry-After, and all are answered.
    import concurrent.futures
    patient = openai.OpenAI(base_url=URL + "v1", api_key="any", max_retries=20)
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda i: patient.chat.completions.create(
            model="m", messages=user(f"long {1000 + i}")).usage.completion_tokens, range(20)))
    assert answers == [5 * (1000 + i) + 1 for i in range(20)], answers


def abort():
    stream = client.chat.completions.create(model="m", messages=user("long 100000"), stream=True)
    for count, _ in enumerate(stream):
        if count == 5:
            break
    stream.close()
    chat_whole()


def models():
    assert [m.id for m in client.models.list()] == ["scripted-1"]
    assert client.models.retrieve("scripted-1").object == "model"


if __name__ == "__main__":
    for check in (chat_whole, chat_stream, chat_calls, chat_calls_streamed_with_helper, tool_choice, reasoning,
                  several_and_stop, cached_tokens, completions, responses, responses_stream, token_ids, errors,
                  retries, abort, models):
        check()
        print("  ok", check.__name__)
