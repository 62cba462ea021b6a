"""The JSON-Schema-Test-Suite against a server with random weights: every schema that is not refused is drawn from, and
every whole document is valid by the jsonschema package. Usage: schema_suite.py URL SUITE DRAWS

SUITE: the folder tests/draft2020-12 of the suite. Prints what was refused, by keyword, and counts."""
import collections
import json
import os
import re
import sys
import urllib.error
import urllib.request

import jsonschema

URL, SUITE, DRAWS = sys.argv[1], sys.argv[2], int(sys.argv[3])
AT_ONCE = 16


def draw(schema, seed):
    body = {"model": "m", "prompt": "json", "guided_json": schema, "n": AT_ONCE, "max_tokens": 60, "seed": seed}
    request = urllib.request.Request(URL + "v1/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            return json.loads(answer.read())["choices"], ""
    except urllib.error.HTTPError as error:
        if error.code != 400:
            raise
        return None, json.loads(error.read())["error"]["message"]


def main():
    refused = collections.Counter()
    covered = documents = cut = 0
    invalid = []
    for name in sorted(os.listdir(SUITE)):
        if not name.endswith(".json"):
            continue
        for group in json.load(open(os.path.join(SUITE, name))):
            schema = group["schema"]
            checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
            validator = jsonschema.Draft202012Validator(schema, format_checker=checker)
            drawn = 0
            while drawn < DRAWS:
                choices, why = draw(schema, drawn)
                if choices is None:
                    word = re.search(r'"(\$?\w+)"', why)
                    refused[word.group(1) if word else why] += 1
                    break
                drawn += len(choices)
                for choice in choices:
                    if choice["finish_reason"] != "stop":
                        cut += 1
                        continue
                    documents += 1
                    try:
                        validator.validate(json.loads(choice["text"]))
                    except jsonschema.ValidationError as error:
                        invalid.append("%s, %s: %s: %s" % (name, group["description"], choice["text"], error.message))
                    except ValueError:
                        invalid.append("%s, %s: no JSON: %s" % (name, group["description"], choice["text"]))
            else:
                covered += 1
    for line in invalid[:20]:
        print(line)
    print("refused: " + ", ".join("%s %d" % item for item in refused.most_common()))
    print("%d schemas drawn from, %d refused, %d documents, %d cut by their length, %d invalid" % (
        covered, sum(refused.values()), documents, cut, len(invalid)))
    sys.exit(1 if invalid or not documents else 0)


if __name__ == "__main__":
    main()
