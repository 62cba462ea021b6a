"""Structured output as public clients ask for it, from a server with random weights. Usage: structured_clients.py URL
MODEL [NAME..]. Prints a line a case; exit status 1 if one failed. A client that is not installed is skipped by name."""
import enum
import json
import os
import sys
import tempfile
import traceback
import urllib.request

URL, MODEL = sys.argv[1], sys.argv[2]
SHORT = 300  # tokens; every form below ends within


def post(path, body):
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.loads(answer.read()), answer.headers


def models():
    import pydantic

    class Colour(str, enum.Enum):
        red = "red"
        blue = "blue"

    class Wheel(pydantic.BaseModel):
        spokes: int = pydantic.Field(ge=2, le=40)
        steel: bool

    class Bike(pydantic.BaseModel):
        colour: Colour
        wheels: list[Wheel] = pydantic.Field(min_length=1, max_length=3)
        name: str = pydantic.Field(max_length=6)
        price: float | None

    return Bike, Wheel


def openai_parse():
    import openai
    bike, _ = models()
    client = openai.OpenAI(base_url=URL + "v1", api_key="any")
    for seed in range(8):
        parsed = client.chat.completions.parse(model="m", messages=[{"role": "user", "content": "a bike"}],
                                               response_format=bike, max_tokens=SHORT, seed=seed)
        assert isinstance(parsed.choices[0].message.parsed, bike), parsed
    answer = client.responses.parse(model="m", input="a bike", text_format=bike, max_output_tokens=SHORT)
    assert isinstance(answer.output_parsed, bike), answer
    with client.chat.completions.stream(model="m", messages=[{"role": "user", "content": "a bike"}],
                                        response_format=bike, max_tokens=SHORT) as stream:
        for _ in stream:
            pass
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, bike)


def openai_strict_tool():
    import openai
    _, wheel = models()
    client = openai.OpenAI(base_url=URL + "v1", api_key="any")
    tool = openai.pydantic_function_tool(wheel, name="turn")
    answer = client.chat.completions.parse(model="m", messages=[{"role": "user", "content": "turn"}], tools=[tool],
                                           tool_choice="required", max_tokens=SHORT, parallel_tool_calls=False)
    call = answer.choices[0].message.tool_calls[0]
    assert isinstance(call.function.parsed_arguments, wheel), answer


def instructor_modes():
    import instructor
    import openai
    bike, _ = models()
    for mode in (instructor.Mode.JSON_SCHEMA, instructor.Mode.TOOLS_STRICT):
        client = instructor.from_openai(openai.OpenAI(base_url=URL + "v1", api_key="any"), mode=mode)
        made = client.chat.completions.create(model="m", response_model=bike, max_tokens=SHORT, max_retries=0,
                                              messages=[{"role": "user", "content": "a bike"}])
        assert isinstance(made, bike), made


def langchain_structured():
    from langchain_openai import ChatOpenAI
    bike, _ = models()
    llm = ChatOpenAI(base_url=URL + "v1", api_key="any", model="m", max_tokens=SHORT)
    made = llm.with_structured_output(bike, method="json_schema").invoke("a bike")
    assert isinstance(made, bike), made


def outlines_forms():
    import openai
    import outlines
    from typing import Literal
    bike, _ = models()
    model = outlines.from_openai(openai.OpenAI(base_url=URL + "v1", api_key="any"), "m")
    assert bike.model_validate_json(model("a bike", bike, max_tokens=SHORT))
    served = outlines.from_vllm(openai.OpenAI(base_url=URL + "v1", api_key="any"), "m")
    assert served("yes or no", Literal["yes", "no"], max_tokens=SHORT) in ("yes", "no")


def anthropic_prefill():
    import anthropic
    client = anthropic.Anthropic(base_url=URL, api_key="any")
    answer = client.messages.create(model="m", max_tokens=8, messages=[
        {"role": "user", "content": "Write JSON"}, {"role": "assistant", "content": "{\"a\":"}])
    assert answer.usage.output_tokens >= 1 and answer.role == "assistant", answer


def vllm_fields():
    import re
    body = {"model": "m", "prompt": "p", "max_tokens": 64}
    regex = post("v1/completions", {**body, "guided_regex": "[ab]{3,5}-\\d{2}"})[0]["choices"][0]["text"]
    assert re.fullmatch("[ab]{3,5}-\\d{2}", regex), regex
    choice = post("v1/completions", {**body, "structured_outputs": {"choice": ["up", "down"]}})[0]
    assert choice["choices"][0]["text"] in ("up", "down"), choice
    grammar = post("v1/completions", {**body, "guided_grammar": 'root ::= "x" ("," "x"){1,3}'})[0]
    assert re.fullmatch("x(,x){1,3}", grammar["choices"][0]["text"]), grammar
    several = post("v1/completions", {**body, "n": 4, "guided_choice": ["up", "down"], "seed": 3})[0]
    assert {c["text"] for c in several["choices"]} <= {"up", "down"}, several
    _, headers = post("v1/completions", {**body, "unheard_of": 1})
    assert "unheard_of" in headers["x-tidemill-warning"], headers


def lm_eval_echo():
    """The request that lm-eval's local-completions makes for a log-likelihood."""
    ids = [100, 200, 300, 400, 500]
    answer, _ = post("v1/completions", {"model": "m", "prompt": [ids, ids[:3]], "max_tokens": 1, "temperature": 0,
                                        "logprobs": 1, "seed": 1234, "echo": True})
    for choice, prompt in zip(answer["choices"], [ids, ids[:3]]):
        logprobs = choice["logprobs"]
        assert logprobs["token_logprobs"][0] is None and len(logprobs["token_logprobs"]) == len(prompt) + 1
        assert all(value < 0 for value in logprobs["token_logprobs"][1:]), logprobs
        for value, top in list(zip(logprobs["token_logprobs"], logprobs["top_logprobs"]))[1:]:
            assert max(top.values()) >= value - 1e-4


def lm_eval_tasks():
    """Two tasks made here: one scores the choices of a question, one reads what is written."""
    import importlib.util
    if importlib.util.find_spec("lm_eval") is None:
        raise ImportError("lm_eval")
    import subprocess
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/data.jsonl", "w") as file:
            for i in range(6):
                file.write(json.dumps({"question": "%d plus %d is" % (i, i + 1), "choices": [str(i), str(2 * i + 1)],
                                       "label": 1, "answer": str(2 * i + 1)}) + "\n")
        data = "dataset_path: json\ndataset_kwargs: {data_files: {test: %s/data.jsonl}}\ntest_split: test\n" % folder
        with open(folder + "/pick.yaml", "w") as file:
            file.write("task: pick\n" + data + "output_type: multiple_choice\ndoc_to_text: \"{{question}}\"\n"
                       "doc_to_choice: choices\ndoc_to_target: label\nmetric_list: [{metric: acc}]\n")
        with open(folder + "/write.yaml", "w") as file:
            file.write("task: write\n" + data + "output_type: generate_until\ndoc_to_text: \"{{question}}\"\n"
                       "doc_to_target: answer\ngeneration_kwargs: {until: [\".\"], max_gen_toks: 8}\n"
                       "metric_list: [{metric: exact_match}]\n")
        arguments = "model=m,base_url=%sv1/completions,tokenizer=%s,num_concurrent=2" % (URL, MODEL)
        command = [sys.executable, "-m", "lm_eval", "run", "--model", "local-completions", "--model_args", arguments,
                   "--tasks", "pick,write", "--include_path", folder, "--output_path", folder + "/out"]
        done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ, HF_HUB_OFFLINE="1",
                                                                                HF_HOME=folder + "/home"))
        assert done.returncode == 0, done.stderr[-2000:]
        results = [os.path.join(at, name) for at, _, names in os.walk(folder + "/out") for name in names
                   if name.startswith("results")]
        found = json.load(open(results[0]))["results"]
        assert 0 <= found["pick"]["acc,none"] <= 1 and 0 <= found["write"]["exact_match,none"] <= 1, found


def embeddings():
    import math
    import openai
    client = openai.OpenAI(base_url=URL + "v1", api_key="any")
    both = client.embeddings.create(model="m", input=["a house", "a tree"]).data
    alone = client.embeddings.create(model="m", input="a house", encoding_format="float").data[0].embedding
    assert abs(math.sqrt(sum(x * x for x in alone)) - 1) < 1e-3, "its length is 1"
    assert all(abs(a - b) < 1e-4 for a, b in zip(alone, both[0].embedding))
    assert both[1].index == 1 and both[1].embedding != both[0].embedding


def probes():
    for path in ("health", "version", "api/version", "ping", "v1/models"):
        with urllib.request.urlopen(URL + path, timeout=20) as answer:
            assert answer.status == 200, path


CASES = [probes, vllm_fields, lm_eval_echo, lm_eval_tasks, embeddings, openai_parse, openai_strict_tool, instructor_modes, langchain_structured,
         outlines_forms, anthropic_prefill]


def main():
    failed = 0
    for case in CASES:
        if len(sys.argv) > 3 and case.__name__ not in sys.argv[3:]:
            continue
        try:
            case()
            print("%s: passed" % case.__name__, flush=True)
        except ImportError as error:
            print("%s: skipped (%s)" % (case.__name__, error), flush=True)
        except Exception:  # noqa: BLE001: whatever a client raises is a failure
            traceback.print_exc(limit=3)
            print("%s: FAILED" % case.__name__, flush=True)
            failed += 1
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
