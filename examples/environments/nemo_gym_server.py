#!/usr/bin/env python3
"""Servers of NeMo-Gym 0.4 by themselves, without its head server. Runs in NeMo-Gym's own Python.

  nemo_gym_server.py serve NAME PORT [KEY=VALUE ..]   resources_servers.NAME on loopback; KEY is one of its config
  nemo_gym_server.py agent AGENT NAME PORT MODEL_URL MODEL_KEY [KEY=VALUE ..]
        responses_api_agents.AGENT on PORT, with resources_servers.NAME and the model server openai_model behind it;
        KEY is one of the agent's config
  nemo_gym_server.py data NAME                        where its bundled JSONL files are
"""
import asyncio
import importlib
import json
import os
import socket
import sys


def server_class(module):
    from nemo_gym.server_utils import SimpleServer

    found = [one for one in vars(module).values() if isinstance(one, type) and issubclass(one, SimpleServer)
             and one.__module__ == module.__name__]
    if not found:
        sys.exit(f"{module.__name__} has no server")
    return found[-1]


def read(settings):
    config = {}
    for setting in settings:
        key, _, text = setting.partition("=")
        config[key] = json.loads(text)
    return config


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def make(module, name, port, settings, servers):
    """A server that uvicorn runs; `servers` are those it knows by name, with their kind and port."""
    import uvicorn
    from nemo_gym.config_types import BaseServerConfig
    from nemo_gym.server_utils import ServerClient
    from omegaconf import OmegaConf

    server = server_class(importlib.import_module(module + ".app"))
    config = {"name": name, "host": "127.0.0.1", "port": port, "entrypoint": "app.py", "domain": "other", **settings}
    known = {one: {kind: {one: {"host": "127.0.0.1", "port": at}}} for one, (kind, at) in servers.items()}
    client = ServerClient(head_server_config=BaseServerConfig(host="127.0.0.1", port=port),
                          global_config_dict=OmegaConf.create(known))
    config = server.model_fields["config"].annotation.model_validate(config)
    app = server(config=config, server_client=client).setup_webserver()
    return uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))


async def run(*servers):
    await asyncio.gather(*(server.serve() for server in servers))


def serve(name, port, settings):
    asyncio.run(run(make(f"resources_servers.{name}", name, port, read(settings), {})))


def agent(kind, name, port, model_url, model_key, settings):
    servers = {"agent": ("responses_api_agents", port), name: ("resources_servers", free_port()),
               "policy": ("responses_api_models", free_port())}
    model = {"openai_base_url": model_url + "/v1", "openai_api_key": model_key, "openai_model": "policy"}
    own = {"resources_server": {"type": "resources_servers", "name": name},
           "model_server": {"type": "responses_api_models", "name": "policy"}, **read(settings)}
    asyncio.run(run(make(f"resources_servers.{name}", name, servers[name][1], {}, servers),
                    make("responses_api_models.openai_model", "policy", servers["policy"][1], model, servers),
                    make(f"responses_api_agents.{kind}", "agent", port, own, servers)))


def data(name):
    module = importlib.import_module(f"resources_servers.{name}.app")
    folder = os.path.join(os.path.dirname(module.__file__), "data")
    for file in sorted(os.listdir(folder)):
        print(os.path.join(folder, file))


def main():
    words = sys.argv[1:]
    # The package reads settings from its own command line, or from here.
    sys.argv = sys.argv[:1]
    os.environ.setdefault("NEMO_GYM_CONFIG_DICT", "{}")
    if len(words) >= 3 and words[0] == "serve":
        return serve(words[1], int(words[2]), words[3:])
    if len(words) >= 6 and words[0] == "agent":
        return agent(words[1], words[2], int(words[3]), words[4], words[5], words[6:])
    if len(words) == 2 and words[0] == "data":
        return data(words[1])
    sys.exit(__doc__)


if __name__ == "__main__":
    main()
