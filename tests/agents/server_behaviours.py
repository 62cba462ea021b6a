"""What vLLM's and llama.cpp's servers document of their APIs, asked of ours. Usage: server_behaviours.py URL

Prints a line a behaviour. Exit status 1: one that docs/gateway.md lists as the same is not, or one that it lists as
different is the same."""
import base64
import json
import re
import sys
import urllib.error
import urllib.request

URL = sys.argv[1].rstrip("/")
HI = [{"role": "user", "content": "hi"}]
TOOL = {"type": "function", "function": {"name": "look", "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"]}}}


def ask(path, body=None, headers=None, method=None):
    """Status, body and headers."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {"Content-Type": "application/json", **(headers or {})},
                                     method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode(), error.headers


def completion(status=200, **fields):
    code, text, _ = ask("/v1/completions", {"model": "m", "prompt": "one two", "max_tokens": 6, **fields})
    assert code == status, (code, text[:300])
    return json.loads(text)


def chat(status=200, **fields):
    code, text, _ = ask("/v1/chat/completions", {"model": "m", "messages": HI, "max_tokens": 6, **fields})
    assert code == status, (code, text[:300])
    return json.loads(text)


def events(path, body):
    text = ask(path, {**body, "stream": True})[1]
    return [line[6:] for line in text.splitlines() if line.startswith("data: ")]


def found(path, body=None):
    code, text, _ = ask(path, body)
    assert code == 200, (code, text[:200])
    return text


def text_of(answer):
    return answer["choices"][0]["text"]


def content_of(answer):
    return answer["choices"][0]["message"]["content"]


def check(value, why=""):
    assert value, why


def deterministic():
    assert text_of(completion(seed=4)) == text_of(completion(seed=4))


def stream_usage():
    got = events("/v1/completions", {"model": "m", "prompt": "a", "max_tokens": 3,
                                     "stream_options": {"include_usage": True}})
    assert got[-1] == "[DONE]" and json.loads(got[-2])["usage"]["completion_tokens"] <= 3
    assert json.loads(got[-2])["choices"] == []


def round_trip():
    ids = json.loads(found("/tokenize", {"model": "m", "prompt": "Hello there, 12"}))
    assert ids["count"] == len(ids["tokens"]) and ids["max_model_len"] > 0, ids
    assert json.loads(found("/detokenize", {"model": "m", "tokens": ids["tokens"]}))["prompt"] == "Hello there, 12"


def llama_round_trip():
    ids = json.loads(found("/tokenize", {"content": "Hello there, 12"}))["tokens"]
    assert json.loads(found("/detokenize", {"tokens": ids}))["content"] == "Hello there, 12"


def bias():
    ids = json.loads(found("/tokenize", {"model": "m", "prompt": " x"}))["tokens"]
    assert text_of(completion(logit_bias={str(ids[0]): 100}, max_tokens=3, min_tokens=3)) == " x" * 3


def embedding_encodings():
    values = json.loads(found("/v1/embeddings", {"model": "m", "input": "a"}))["data"][0]["embedding"]
    packed = json.loads(found("/v1/embeddings", {"model": "m", "input": "a", "encoding_format": "base64"}))
    assert len(base64.b64decode(packed["data"][0]["embedding"])) == 4 * len(values)


def strict_call():
    answer = chat(tools=[{**TOOL, "function": {**TOOL["function"], "strict": True}}], tool_choice="required",
                  max_tokens=200)
    call = answer["choices"][0]["message"]["tool_calls"][0]["function"]
    assert call["name"] == "look" and json.loads(call["arguments"])["city"] in ("Rome", "Oslo"), answer


def named_call():
    answer = chat(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "look"}}, max_tokens=60)
    assert answer["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "look", answer


def continued():
    answer = chat(messages=HI + [{"role": "assistant", "content": "The answer"}], add_generation_prompt=False,
                  continue_final_message=True)
    assert answer["usage"]["completion_tokens"] >= 1


def error_shape():
    error = completion(status=400, temperature=-1)["error"]
    assert error["message"] and error["type"] == "invalid_request_error", error


def schema_answer(**fields):
    return json.loads(content_of(chat(max_tokens=200, **fields)))


def preflight():
    code, _, headers = ask("/v1/models", headers={"Origin": "http://localhost:3000",
                                                   "Access-Control-Request-Method": "POST"}, method="OPTIONS")
    assert code in (200, 204) and headers["Access-Control-Allow-Origin"], code


SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["n"]}

# (server, what it documents, the same here, how it is asked)
BEHAVIOURS = [
    ("vLLM", "`GET /health`, `/ping`, `/version`", True,
     lambda: (found("/health"), found("/ping"), json.loads(found("/version"))["version"])),
    ("vLLM", "`GET /v1/models` with `max_model_len`", True,
     lambda: check(json.loads(found("/v1/models"))["data"][0]["max_model_len"] > 0)),
    ("vLLM", "`GET /metrics` with `vllm:` names", True, lambda: check("vllm:num_requests_running" in found("/metrics"))),
    ("vLLM", "Completions: several prompts, `n`, indexes in order", True,
     lambda: check([c["index"] for c in completion(prompt=["a", "b"], n=2)["choices"]] == [0, 1, 2, 3])),
    ("vLLM", "Completions: token ids as a prompt", True,
     lambda: check(completion(prompt=[5, 6, 7])["usage"]["prompt_tokens"] == 3)),
    ("vLLM", "Completions: `echo` with `logprobs`", True,
     lambda: check(completion(echo=True, logprobs=1)["choices"][0]["logprobs"]["token_logprobs"][0] is None)),
    ("vLLM", "Completions: `logprobs: 0` gives the drawn token's own", True,
     lambda: check(len(completion(logprobs=0)["choices"][0]["logprobs"]["token_logprobs"]) >= 1)),
    ("vLLM", "more alternatives than the server allows are a 400", True, lambda: completion(status=400, logprobs=999)),
    ("vLLM", "`prompt_logprobs`", True,
     lambda: check(completion(prompt_logprobs=1)["choices"][0]["prompt_logprobs"][0] is None)),
    ("vLLM", "`return_tokens_as_token_ids`", True,
     lambda: check(completion(logprobs=1, return_tokens_as_token_ids=True)["choices"][0]["logprobs"]["tokens"][0]
                   .startswith("token_id:"))),
    ("vLLM", "`seed` repeats an answer", True, deterministic),
    ("vLLM", "`min_tokens` and `ignore_eos`", True,
     lambda: check(completion(ignore_eos=True, max_tokens=9)["usage"]["completion_tokens"] == 9)),
    ("vLLM", "`stop_token_ids`", True,
     lambda: check(completion(stop_token_ids=list(range(0, 400, 2)), max_tokens=60)["choices"][0]["finish_reason"])),
    ("vLLM", "`logit_bias`", True, bias),
    ("vLLM", "`logit_bias` of a token outside the vocabulary is a 400", True,
     lambda: completion(status=400, logit_bias={"99999999": 1})),
    ("vLLM", "penalties", True, lambda: completion(presence_penalty=1, frequency_penalty=1, repetition_penalty=1.1)),
    ("vLLM", "`skip_special_tokens`, `spaces_between_special_tokens`", True,
     lambda: completion(skip_special_tokens=True, spaces_between_special_tokens=True)),
    ("vLLM", "`stream_options.include_usage`: usage in the last chunk", True, stream_usage),
    ("vLLM", "Chat: `logprobs`, `top_logprobs`", True,
     lambda: check(len(chat(logprobs=True, top_logprobs=3)["choices"][0]["logprobs"]["content"][0]["top_logprobs"])
                   == 3)),
    ("vLLM", "Chat: `n`, `max_completion_tokens`", True,
     lambda: check(len(chat(n=3, max_completion_tokens=2)["choices"]) == 3)),
    ("vLLM", "Chat: `continue_final_message` with `add_generation_prompt: false`", True, continued),
    ("vLLM", "Chat: `chat_template_kwargs`", True, lambda: chat(chat_template_kwargs={"enable_thinking": False})),
    ("vLLM", "`guided_choice`, `guided_regex`, `guided_grammar`", True, lambda: check(
        text_of(completion(guided_choice=["up", "down"])) in ("up", "down")
        and re.fullmatch("[ab]{2}", text_of(completion(guided_regex="[ab]{2}")))
        and text_of(completion(guided_grammar='root ::= "x" | "y"')) in "xy")),
    ("vLLM", "`guided_json`, `structured_outputs`", True, lambda: check(
        1 <= schema_answer(guided_json=SCHEMA)["n"] <= 9
        and 1 <= schema_answer(structured_outputs={"json": SCHEMA})["n"] <= 9)),
    ("vLLM", "`response_format: json_schema`", True, lambda: check(1 <= schema_answer(
        response_format={"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}})["n"] <= 9)),
    ("vLLM", "a schema that cannot be compiled is a 400", True, lambda: chat(status=400, guided_json={"type": "int"})),
    ("vLLM", "`tool_choice: required` with a strict tool", True, strict_call),
    ("vLLM", "`tool_choice` of a tool by name", True, named_call),
    ("vLLM", "`tool_choice` of a tool that is not there is a 400", True,
     lambda: chat(status=400, tools=[TOOL], tool_choice={"type": "function", "function": {"name": "other"}})),
    ("vLLM", "`POST /tokenize`, `/detokenize`", True, round_trip),
    ("vLLM", "`POST /v1/embeddings`, `float` and `base64`", True, embedding_encodings),
    ("vLLM", "an error is `{\"error\": {message, type, code}}`", True, error_shape),
    ("vLLM", "a prompt that is too long is a 400 that names the context length", True,
     lambda: check("maximum context length" in completion(status=400, prompt=[5] * 100000)["error"]["message"])),
    ("vLLM", "another model's name is a 404 (here with `--strict-model`)", False,
     lambda: completion(status=404, model="another")),
    ("vLLM", "`include_stop_str_in_output`", False,
     lambda: completion(include_stop_str_in_output=True, stop=["x"])),
    ("vLLM", "`bad_words`, `allowed_token_ids`", False, lambda: completion(bad_words=["x"], allowed_token_ids=[5])),
    ("vLLM", "`truncate_prompt_tokens`", False, lambda: completion(truncate_prompt_tokens=1)),
    ("vLLM", "`use_beam_search`, `best_of`", False, lambda: completion(use_beam_search=True, n=2, best_of=2)),
    ("vLLM", "`POST /score`, `/rerank`, `/pooling`, `/classify`", False,
     lambda: found("/score", {"model": "m", "text_1": "a", "text_2": "b"})),
    ("llama.cpp", "`GET /health`, `/v1/health`: `{\"status\": \"ok\"}`", True, lambda: check(
        json.loads(found("/health"))["status"] == "ok" and json.loads(found("/v1/health"))["status"] == "ok")),
    ("llama.cpp", "the paths without `/v1`", True, lambda: (
        found("/models"), found("/completions", {"prompt": "a", "max_tokens": 1, "model": "m"}),
        found("/chat/completions", {"messages": HI, "max_tokens": 1, "model": "m"}))),
    ("llama.cpp", "Chat: `grammar`", True,
     lambda: check(content_of(chat(grammar='root ::= "yes" | "no"')) in ("yes", "no"))),
    ("llama.cpp", "Chat: `json_schema`", True, lambda: check(1 <= schema_answer(json_schema=SCHEMA)["n"] <= 9)),
    ("llama.cpp", "`response_format: json_object` with a `schema`", True, lambda: check(
        1 <= schema_answer(response_format={"type": "json_object", "schema": SCHEMA})["n"] <= 9)),
    ("llama.cpp", "`repeat_penalty`, `min_p`, `top_k`", True,
     lambda: completion(repeat_penalty=1.2, min_p=0.05, top_k=20)),
    ("llama.cpp", "`n_predict`", True,
     lambda: check(completion(n_predict=2, max_tokens=None)["usage"]["completion_tokens"] <= 2)),
    ("llama.cpp", "`POST /tokenize` with `content`, `/detokenize` with `content`", True, llama_round_trip),
    ("llama.cpp", "`POST /v1/messages`, `/v1/messages/count_tokens`", True, lambda: check(json.loads(found(
        "/v1/messages/count_tokens", {"model": "m", "messages": HI}))["input_tokens"] > 0)),
    ("llama.cpp", "CORS of every origin (here with `--cors`)", False, preflight),
    ("llama.cpp", "`logit_bias` as a list of pairs or with texts", False, lambda: completion(logit_bias=[[5, 1.0]])),
    ("llama.cpp", "`max_tokens: -1`", False, lambda: completion(max_tokens=-1)),
    ("llama.cpp", "`POST /completion`, `/infill`, `/embedding`", False,
     lambda: found("/completion", {"prompt": "a", "n_predict": 1})),
    ("llama.cpp", "`GET /props`, `/slots`", False, lambda: found("/props")),
    ("llama.cpp", "`POST /apply-template`", False, lambda: found("/apply-template", {"messages": HI})),
    ("llama.cpp", "mirostat, DRY, XTC, `samplers`", False, lambda: completion(mirostat=2)),
]


def main():
    wrong = 0
    for server, what, same, how in BEHAVIOURS:
        try:
            how()
            passed, why = True, ""
        except Exception as error:  # noqa: BLE001: whatever is not as documented is a difference
            passed, why = False, "%s: %s" % (type(error).__name__, str(error)[:200])
        wrong += passed != same
        print("%-9s %s: %s%s%s" % (server, what, "the same" if passed else "different",
                                   "" if passed == same else " (NOT AS LISTED)", ", " + why if why and same else ""),
              flush=True)
    same = sum(one[2] for one in BEHAVIOURS)
    print("%d behaviours listed as the same, %d as different, %d not as listed" % (same, len(BEHAVIOURS) - same, wrong))
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
