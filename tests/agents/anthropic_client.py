"""What the official anthropic client for Python expects of a server. Usage: anthropic_client.py URL"""
import sys

import anthropic

URL = sys.argv[1]
client = anthropic.Anthropic(base_url=URL, api_key="any", max_retries=2)
TOOL = {"name": "add", "description": "Adds", "input_schema": {
    "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]}}
CALLS = 'call add {"a": 1, "b": 2} and add {"a": 3, "b": 4}'


def ask(text, **more):
    return client.messages.create(model="m", max_tokens=1000, messages=[{"role": "user", "content": text}], **more)


def whole():
    answer = ask("say hello", system="Be brief.")
    assert answer.content[0].text == "hello" and answer.stop_reason == "end_turn", answer
    assert answer.usage.output_tokens == 6


def stream():
    with client.messages.stream(model="m", max_tokens=1000, messages=[{"role": "user", "content": "say one two"}]) as s:
        assert "".join(s.text_stream) == "one two"
        assert s.get_final_message().usage.output_tokens == 8


def calls():
    answer = ask(CALLS, tools=[TOOL])
    used = [block for block in answer.content if block.type == "tool_use"]
    assert [block.input for block in used] == [{"a": 1, "b": 2}, {"a": 3, "b": 4}], answer
    assert answer.stop_reason == "tool_use"
    history = [{"role": "user", "content": CALLS}, {"role": "assistant", "content": answer.content},
               {"role": "user", "content": [{"type": "tool_result", "tool_use_id": b.id, "content": "3"} for b in used]}]
    after = client.messages.create(model="m", max_tokens=1000, messages=history, tools=[TOOL])
    assert after.content[0].text.startswith("Done"), after
    with client.messages.stream(model="m", max_tokens=1000, messages=[{"role": "user", "content": CALLS}],
                                tools=[TOOL]) as s:
        final = s.get_final_message()
    assert [b.input["a"] for b in final.content if b.type == "tool_use"] == [1, 3], final
    one = ask(CALLS, tools=[TOOL], tool_choice={"type": "any", "disable_parallel_tool_use": True})
    assert len([b for b in one.content if b.type == "tool_use"]) == 1


def thinking():
    answer = ask("think deep then short", thinking={"type": "enabled", "budget_tokens": 1024})
    assert [b.type for b in answer.content] == ["thinking", "text"], answer
    assert answer.content[0].thinking == "deep" and answer.content[1].text == "short"


def stop_sequence():
    answer = ask("say a STOP b", stop_sequences=["STOP"])
    assert answer.content[0].text == "a " and answer.stop_reason == "stop_sequence", answer
    assert answer.stop_sequence == "STOP"


def max_tokens():
    answer = client.messages.create(model="m", max_tokens=3, messages=[{"role": "user", "content": "say hello"}])
    assert answer.stop_reason == "max_tokens" and answer.content[0].text == "hel", answer


def count():
    counted = client.messages.count_tokens(model="m", messages=[{"role": "user", "content": "hi"}])
    assert counted.input_tokens == ask("hi").usage.input_tokens


def errors():
    try:
        ask("hi", extra_body={"container": "c"})
        raise AssertionError("container was not refused")
    except anthropic.BadRequestError as error:
        assert error.body["error"]["type"] == "invalid_request_error" and "container" in error.body["error"]["message"]
    try:
        ask("x" * 700_000)
        raise AssertionError("a prompt that does not fit was not refused")
    except anthropic.BadRequestError as error:
        assert "prompt is too long" in error.body["error"]["message"], error.body


def abort():
    with client.messages.stream(model="m", max_tokens=500_000,
                                messages=[{"role": "user", "content": "long 100000"}]) as s:
        for index, _ in enumerate(s.text_stream):
            if index == 5:
                break
    whole()


def models():
    assert [m.id for m in client.models.list()] == ["scripted-1"]


if __name__ == "__main__":
    for check in (whole, stream, calls, thinking, stop_sequence, max_tokens, count, errors, abort, models):
        check()
        print("  ok", check.__name__)
