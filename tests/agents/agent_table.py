"""The agents and clients of scripts/agents: what they are installed from and how they are run."""
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
MODEL = "scripted-1"
TASK = "create hello.c that prints hello and compile it"


class Agent:
    def __init__(self, name, registry, packages, prepare, task=True):
        self.name = name
        self.registry = registry  # "npm" or "pypi"
        self.packages = packages
        self.prepare = prepare  # (url, home, project, place, env) -> the command line; may write files
        self.task = task  # it does TASK; else it is a suite of its own


def write(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text if isinstance(text, str) else json.dumps(text))


def node_suite(name):
    def prepare(url, home, project, place, env):
        # Node looks for packages from where the script lies.
        with open(os.path.join(HERE, name)) as source:
            write(place + "/" + name, source.read())
        return ["node", place + "/" + name, url]
    return prepare


def python_suite(name):
    return lambda url, home, project, place, env: ["python", os.path.join(HERE, name), url]


def codex(url, home, project, place, env):
    write(home + "/.codex/config.toml", f'''model = "{MODEL}"
model_provider = "local"
check_for_update_on_startup = false
[analytics]
enabled = false
[model_providers.local]
name = "local"
base_url = "{url}v1"
env_key = "LOCAL_KEY"
wire_api = "responses"
''')
    env["LOCAL_KEY"] = "any"
    return ["codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", TASK]


def claude(url, home, project, place, env):
    env.update(ANTHROPIC_BASE_URL=url.rstrip("/"), ANTHROPIC_MODEL=MODEL, ANTHROPIC_SMALL_FAST_MODEL=MODEL,
               ANTHROPIC_DEFAULT_HAIKU_MODEL=MODEL, CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_TELEMETRY="1",
               DISABLE_AUTOUPDATER="1")
    return ["claude", "-p", TASK, "--allowedTools", "Bash", "Write"]


def qwen(url, home, project, place, env):
    write(home + "/.qwen/settings.json", {
        "telemetry": {"enabled": False}, "general": {"disableAutoUpdate": True, "disableUpdateNag": True},
        "privacy": {"usageStatisticsEnabled": False}, "security": {"auth": {"selectedType": "openai"}}})
    env.update(OPENAI_BASE_URL=url + "v1", OPENAI_MODEL=MODEL)
    return ["qwen", "--yolo", "-p", TASK]


def opencode(url, home, project, place, env):
    write(project + "/opencode.json", {
        "provider": {"local": {"npm": "@ai-sdk/openai-compatible", "options": {"baseURL": url + "v1", "apiKey": "any"},
                               "models": {MODEL: {"tool_call": True, "limit": {"context": 500000, "output": 8000}}}}},
        "model": "local/" + MODEL, "small_model": "local/" + MODEL, "autoupdate": False,
        "permission": {"edit": "allow", "bash": "allow"}})
    env.update(OPENCODE_DISABLE_AUTOUPDATE="1", OPENCODE_DISABLE_MODELS_FETCH="1", OPENCODE_DISABLE_LSP_DOWNLOAD="1",
               OPENCODE_DISABLE_DEFAULT_PLUGINS="1")
    return ["opencode", "run", TASK]


def pi(api, base):
    def prepare(url, home, project, place, env):
        write(home + "/.pi/agent/models.json", {"providers": {"local": {
            "baseUrl": url.rstrip("/") + base, "api": api, "apiKey": "any",
            "models": [{"id": MODEL, "contextWindow": 500000, "maxTokens": 8000}]}}})
        env.update(PI_OFFLINE="1", PI_TELEMETRY="0", PI_SKIP_VERSION_CHECK="1")
        return ["pi", "--provider", "local", "--model", MODEL, "-p", TASK]
    return prepare


def continue_cli(url, home, project, place, env):
    write(home + "/config.yaml", f'''name: local
version: 1.0.0
schema: v1
models:
  - name: local
    provider: openai
    model: {MODEL}
    apiBase: {url}v1
    apiKey: any
    roles: [chat]
    capabilities: [tool_use]
''')
    env.update(CONTINUE_TELEMETRY_ENABLED="0")
    return ["cn", "--config", home + "/config.yaml", "--auto", "-p", TASK]


def cline(url, home, project, place, env):
    return ["sh", "-c", f"cline auth -p openai-compatible -k any -m {MODEL} -b {url}v1 && "
                        f"cline --auto-approve true '{TASK}'"]


def openclaw(url, home, project, place, env):
    write(home + "/openclaw.json", {
        "agents": {"defaults": {"model": {"primary": "local/" + MODEL}, "workspace": project}},
        "models": {"providers": {"local": {
            "baseUrl": url + "v1", "apiKey": "any", "api": "openai-completions",
            "models": [{"id": MODEL, "name": MODEL, "contextWindow": 500000, "maxTokens": 8000, "reasoning": False,
                        "input": ["text"], "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}}]}}}})
    return ["openclaw", "agent", "exec", "--config", home + "/openclaw.json", "--model", "local/" + MODEL,
            "--timeout", "200", TASK]


def mini(*more):
    def prepare(url, home, project, place, env):
        env.update(MSWEA_CONFIGURED="true", MSWEA_COST_TRACKING="ignore_errors", OPENAI_API_BASE=url + "v1",
                   LITELLM_LOCAL_MODEL_COST_MAP="True")
        return ["mini", "-m", "openai/" + MODEL, "-t", TASK, "-y", "--exit-immediately", "-o", "t.json", *more]
    return prepare


def aider(url, home, project, place, env):
    # Its second turn is what the compiler says of the first.
    env.update(LITELLM_LOCAL_MODEL_COST_MAP="True")
    return ["aider", "--no-auto-lint", "--model", "openai/" + MODEL, "--openai-api-base", url + "v1", "--yes-always", "--no-check-update",
            "--analytics-disable", "--no-show-model-warnings", "--no-git", "--auto-test", "--test-cmd",
            "cc hello.c -o hello && ./hello", "--message", TASK]


def inspect_ai(url, home, project, place, env):
    env.update(LOCAL_API_KEY="any", LOCAL_BASE_URL=url + "v1", TASK=TASK)
    with open(os.path.join(HERE, "inspect_task.py")) as source:
        write(project + "/inspect_task.py", source.read())
    return ["inspect", "eval", "inspect_task.py", "--model", "openai-api/local/" + MODEL,
            "--display", "plain", "--log-dir", home + "/logs"]


def python_agent(name):
    def prepare(url, home, project, place, env):
        env["URL"] = url + "v1"
        return ["python", os.path.join(HERE, "python_agents.py"), name, MODEL, TASK]
    return prepare


AGENTS = [
    Agent("openai-python", "pypi", ["openai==3.49.0"], python_suite("openai_client.py"), task=False),
    Agent("anthropic-python", "pypi", ["anthropic==2.8.0"], python_suite("anthropic_client.py"), task=False),
    Agent("openai-node", "npm", ["openai@7.53.0"], node_suite("openai_client.mjs"), task=False),
    Agent("anthropic-node", "npm", ["@anthropic-ai/sdk@1.8.0"], node_suite("anthropic_client.mjs"), task=False),
    Agent("codex", "npm", ["@openai/codex@0.166.0"], codex),
    Agent("claude-code", "npm", ["@anthropic-ai/claude-code@2.1.325"], claude),
    Agent("qwen-code", "npm", ["@qwen-code/qwen-code@0.24.4"], qwen),
    Agent("opencode", "npm", ["opencode-ai@1.18.33"], opencode),
    Agent("pi-chat", "npm", ["@mariozechner/pi-coding-agent@0.73.1"], pi("openai-completions", "/v1")),
    Agent("pi-responses", "npm", ["@mariozechner/pi-coding-agent@0.73.1"], pi("openai-responses", "/v1")),
    Agent("pi-messages", "npm", ["@mariozechner/pi-coding-agent@0.73.1"], pi("anthropic-messages", "")),
    Agent("continue", "npm", ["@continuedev/cli@1.5.47"], continue_cli),
    Agent("cline", "npm", ["cline@3.0.65"], cline),
    Agent("openclaw", "npm", ["openclaw@2026.9.6"], openclaw),
    Agent("mini-swe-agent", "pypi", ["mini-swe-agent==2.4.6", "mcp==2.3.0"], mini()),
    Agent("mini-swe-agent-responses", "pypi", ["mini-swe-agent==2.4.6", "mcp==2.3.0"],
          mini("--model-class", "litellm_response")),
    Agent("mini-swe-agent-text", "pypi", ["mini-swe-agent==2.4.6", "mcp==2.3.0"],
          mini("--model-class", "litellm_textbased", "-c", "mini_textbased.yaml")),
    Agent("aider", "pypi", ["aider-chat==0.86.2"], aider),
    Agent("inspect-ai", "pypi", ["inspect-ai==0.3.285", "openai==3.49.0"], inspect_ai),
    Agent("openai-agents", "pypi", ["openai-agents==0.24.0"], python_agent("openai_agents")),
    Agent("smolagents", "pypi", ["smolagents[openai]==1.26.0"], python_agent("smolagents")),
    Agent("langgraph", "pypi", ["langgraph==1.2.20", "langchain-openai==1.7.3"], python_agent("langgraph")),
    Agent("pydantic-ai", "pypi", ["pydantic-ai-slim[openai]==2.66.0"], python_agent("pydantic_ai")),
]

# Those that also run on a real engine.
ON_AN_ENGINE = ("codex", "claude-code", "qwen-code", "opencode", "mini-swe-agent")
