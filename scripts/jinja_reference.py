#!/usr/bin/env python3
"""Writes src/conversation/jinja/reference.json anew: what Python's jinja2 makes of the templates in it.

The environment is set up as transformers does for chat templates. Needs jinja2 3.1.6.
"""
import datetime
import json
import pathlib

from jinja2 import TemplateError, nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

PATH = pathlib.Path(__file__).parent.parent / "src/conversation/jinja/reference.json"


class Generation(Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller):
        return caller()


def to_json(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def raise_exception(message):
    raise TemplateError(message)


def main():
    reference = json.loads(PATH.read_text())
    now = datetime.datetime.fromisoformat(reference["now"])
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, loopcontrols])
    env.filters["tojson"] = to_json
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = now.strftime
    for case in reference["cases"]:
        try:
            case["expected"] = env.from_string(case["template"]).render(
                messages=reference["messages"], tools=None, add_generation_prompt=True,
                bos_token="<s>", **reference["kwargs"])
        except Exception as error:  # whatever it is, ours must fail too
            case["expected"] = None
            case["error"] = f"{type(error).__name__}: {error}"
    PATH.write_text(json.dumps(reference, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
