#!/usr/bin/env python3
"""An environment of verifiers 0.4, served to Tidemill or listed as tasks. Runs in the environment's own Python.

  verifiers_worker.py rows TASKSET [KEY=VALUE ..]         its rows, one JSON object a line
  verifiers_worker.py serve TASKSET PORT [KEY=VALUE ..]   the server, on loopback

KEY is one of the environment's config, VALUE is JSON or text: agent.harness.id=null agent.max_turns=4
"""
import json
import sys


def config_of(taskset, settings):
    from verifiers.v1.utils.loaders import resolve_env_config

    data = {"taskset": {"id": taskset}}
    for setting in settings:
        key, _, text = setting.partition("=")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        *path, last = key.split(".")
        place = data
        for name in path:
            place = place.setdefault(name, {})
        # JSON's null is a value here; the harness of that name is text.
        place[last] = text if last == "id" else value
    return resolve_env_config(data)


def rows(config):
    from verifiers.v1.utils.loaders import load_taskset

    for task in load_taskset(config.taskset):
        print(json.dumps(task.data.model_dump(mode="json")))


def serve(config, port):
    from verifiers.v1.serve.pool import serve_env

    serve_env(max_workers=1, address=f"tcp://127.0.0.1:{port}", config=config)


def main():
    words = sys.argv[1:]
    if len(words) >= 2 and words[0] == "rows":
        return rows(config_of(words[1], words[2:]))
    if len(words) >= 3 and words[0] == "serve":
        return serve(config_of(words[1], words[3:]), int(words[2]))
    sys.exit(__doc__)


if __name__ == "__main__":
    main()
