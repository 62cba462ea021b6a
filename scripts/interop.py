#!/usr/bin/env python3
"""Usage: interop.py PROGRAM

Checks the files of the program with the tools that others use. Prints a line for each check and ends with status 1
if one failed. scripts/interop installs what it needs.
"""
import json
import math
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

import datasets
import pandas
import torch
import transformers
from mlflow.tracking import MlflowClient
from peft import LoraConfig, PeftModel, get_peft_model
from prometheus_client.parser import text_string_to_metric_families
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from wandb.proto import wandb_internal_pb2
from wandb.sdk.internal.datastore import DataStore

PROGRAM = ""
IDS = [5, 17, 3, 250, 99, 42, 7, 7, 120, 61]
FAILED = []


def check(name, good, detail=""):
    print(f"{'ok  ' if good else 'FAIL'}  {name}{'  ' + str(detail) if detail != '' else ''}", flush=True)
    if not good:
        FAILED.append(name)


def run(*words, status=0):
    result = subprocess.run([PROGRAM, "--log-level", "warn", *map(str, words)], capture_output=True, text=True)
    if status is not None and result.returncode != status:
        sys.exit(f"{' '.join(map(str, words))}: status {result.returncode}\n{result.stdout}{result.stderr}")
    return result


def ours(model, *more):
    ids = ",".join(map(str, IDS))
    return json.loads(run("model", "score", "--model", model, "--ids", ids, "--json", *more).stdout)["logprobs"]


def theirs(model):
    with torch.no_grad():
        logits = model(torch.tensor([IDS])).logits[0].float()
    logprobs = torch.log_softmax(logits, -1)
    return [logprobs[i, IDS[i + 1]].item() for i in range(len(IDS) - 1)]


def apart(a, b):
    return max(abs(x - y) for x, y in zip(a, b)) if len(a) == len(b) else math.inf


def load(folder):
    return transformers.AutoModelForCausalLM.from_pretrained(folder, torch_dtype=torch.float32).eval()


SHAPE = dict(vocab_size=300, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=128)
VARIANTS = {
    "llama": lambda: transformers.LlamaConfig(**SHAPE),
    "llama tied": lambda: transformers.LlamaConfig(**SHAPE, tie_word_embeddings=True),
    "llama long rope": lambda: transformers.LlamaConfig(**SHAPE, rope_theta=500000.0),
    "qwen2": lambda: transformers.Qwen2Config(**SHAPE),
    "qwen3": lambda: transformers.Qwen3Config(**SHAPE, head_dim=16),
}


def check_models(folder):
    for name, config in VARIANTS.items():
        torch.manual_seed(1)
        model = transformers.AutoModelForCausalLM.from_config(config()).float().eval()
        made = folder / name.replace(" ", "-")
        model.save_pretrained(made)
        gap = apart(ours(made), theirs(model))
        check(f"{name}: a model of transformers scores the same here", gap < 1e-4, f"{gap:.1e}")
        new = folder / (made.name + "-new")
        run("model", "new", "--config", made / "config.json", "--seed", 3, "--out", new)
        gap = apart(ours(new), theirs(load(new)))
        check(f"{name}: a model of ours scores the same in transformers", gap < 1e-4, f"{gap:.1e}")
    return folder / "qwen2"


def check_adapter_of_peft(folder, base):
    torch.manual_seed(2)
    model = get_peft_model(load(base), LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", task_type="CAUSAL_LM"))
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.05)
    made = folder / "adapter"
    model.save_pretrained(made)
    gap = apart(ours(base, "--adapter", made), theirs(model.eval()))
    check("an adapter of PEFT scores the same here", gap < 1e-4, f"{gap:.1e}")
    merged = folder / "merged"
    run("model", "merge", "--model", base, "--adapter", made, "--out", merged)
    gap = apart(theirs(load(merged)), theirs(model.merge_and_unload()))
    check("merged here is merged there", gap < 1e-4, f"{gap:.1e}")


def train_words(folder, name, *more):
    return ["train", "--json", "--no-web", "--set", f"run.folder={folder}/runs", "--set", f"run.name={name}",
            "--set", f"model.path={folder}/demo", "--set", "model.protocol=compact",
            "--set", f"tasks.train={folder}/train.jsonl", "--set", "rollout.group_size=4",
            "--set", "rollout.groups_per_step=4", "--set", "rollout.max_turn_tokens=8", "--set", "rollout.max_turns=2",
            "--set", "replay.drop_zero_variance=false", "--set", "learner.learning_rate=0.001",
            "--set", "reward.weights.format=0.1", *more]


def check_adapter_of_ours(folder):
    run(*train_words(folder, "lora", "--set", "run.steps=3", "--set", "learner.lora_rank=4"))
    checkpoint = sorted((folder / "runs/lora/checkpoints").glob("step-*"))[-1]
    base = json.loads((checkpoint / "adapter_config.json").read_text())["base_model_name_or_path"]
    model = PeftModel.from_pretrained(load(base), checkpoint).eval()
    gap = apart(ours(base, "--adapter", checkpoint), theirs(model))
    check("a trained adapter names its base and scores the same in PEFT", gap < 1e-4, f"{gap:.1e}")


# A run that is killed in the middle and goes on.
def make_run(folder):
    steps = ["--set", "learner.checkpoint_every_steps=2", "--set", f"tasks.eval={folder}/eval.jsonl",
             "--set", "eval.every_steps=4", "--set", "eval.samples=1"]
    words = train_words(folder, "curves", "--set", "run.steps=100000", *steps)
    child = subprocess.Popen([PROGRAM, "--log-level", "error", *map(str, words)], stdout=subprocess.DEVNULL)
    metrics = folder / "runs/curves/metrics.jsonl"
    until = time.time() + 120
    while time.time() < until:
        if metrics.exists() and sum('"kind":"step"' in line for line in metrics.open()) >= 7:
            break
        time.sleep(0.1)
    child.send_signal(signal.SIGKILL)
    child.wait()
    run("train", "--json", "--no-web", "--resume", folder / "runs/curves", "--set", "run.steps=12")
    return folder / "runs/curves"


def check_tensorboard(made):
    events = EventAccumulator(str(made / "tensorboard"))
    events.Reload()
    tags = events.Tags()["scalars"]
    steps = [point.step for point in events.Scalars("step/reward")]
    check("TensorBoard has each step once, after kill -9 and resume", steps == list(range(1, 13)), steps)
    points = [point.step for point in events.Scalars("eval/pass_rate")]
    check("TensorBoard has one curve of evaluations", points[0] == 0 and len(points) >= 3 and points == sorted(points), points)
    check("no evaluation has a tag of its own", not [tag for tag in tags if "during" in tag])


def check_pandas(folder, made):
    lines = pandas.read_json(made / "metrics.jsonl", lines=True)
    steps = lines[lines.kind == "step"].step
    check("pandas reads metrics.jsonl, no step twice", steps.is_unique and len(steps) == 12)
    first = next(line for line in (made / "metrics.jsonl").open() if '"kind":"step"' in line)
    check("whole numbers are whole", isinstance(json.loads(first)["step"], int))
    out = folder / "episodes.jsonl.zst"
    run("runs", "--folder", made.parent, "export", made.name, "--out", out)
    episodes = pandas.read_json(out, lines=True)
    same = (episodes.completion_ids.map(len) == episodes.logprobs.map(len)).all()
    check("pandas reads the exported episodes", len(episodes) > 12 * 16 and same, len(episodes))
    check_formats(folder, made, episodes)
    run("warmup", out, "--model", folder / "demo", "--out", folder / "again", "--max-steps", 2, "--evaluate-every", 1)
    load(folder / "again")
    check("warmup takes them back", True)


# The same episodes in the formats of others.
def check_formats(folder, made, episodes):
    def export(name, kind):
        run("runs", "--folder", made.parent, "export", made.name, "--format", kind, "--out", folder / name)
        return folder / name

    table = pandas.read_parquet(export("episodes.parquet", "parquet"))
    same = all(list(a) == list(b) for column in ["prompt_ids", "completion_ids", "completion_mask", "versions"]
               for a, b in zip(table[column], episodes[column]))
    close = all(apart(list(a), list(b)) < 1e-6 for a, b in zip(table.logprobs, episodes.logprobs))
    check("Parquet has the records' tokens, masks, versions and log-probabilities", same and close, len(table))
    same = all((a is None or a != a) and b != b or a == b for a, b in zip(table.reward, episodes.reward))
    check("and their rewards", same and table.columns.tolist() == episodes.columns.tolist(), table.reward.mean())
    rows = datasets.load_dataset("parquet", data_files=str(folder / "episodes.parquet"), cache_dir=str(folder / "cache"))
    check("datasets loads it", rows["train"].num_rows == len(episodes), rows["train"].features["logprobs"])
    for kind in ["openai", "sharegpt", "atif"]:
        lines = [json.loads(line) for line in export(f"{kind}.jsonl", kind).open()]
        check(f"{kind} has a line a sequence", len(lines) == len(episodes))
        said = {"openai": lambda line: line["messages"], "sharegpt": lambda line: line["conversations"],
                "atif": lambda line: line["steps"]}[kind](lines[0])
        check(f"{kind} has the messages", len(said) == len(episodes.messages[0]), said[-1])


# A run in two parts, with W&B and MLflow told by a process beside it, read by their own packages.
def check_trackers(folder):
    told = ["--set", 'track.to=["wandb","mlflow"]', "--set", f"track.python={sys.executable}", "--set", "track.wait=120s",
            "--set", f"tasks.eval={folder}/eval.jsonl", "--set", "eval.every_steps=2", "--set", "eval.samples=1"]
    run(*train_words(folder, "tracked", "--set", "run.steps=3", *told))
    run("train", "--json", "--no-web", "--resume", folder / "runs/tracked", "--set", "run.steps=5")
    made = folder / "runs/tracked"
    metrics = [json.loads(line) for line in (made / "metrics.jsonl").open()]
    rewards = [(line["step"], line["reward_mean"]) for line in metrics if line["kind"] == "step"]

    client = MlflowClient(f"sqlite:///{folder}/runs/mlflow.db")
    runs = client.search_runs([client.get_experiment_by_name("tidemill").experiment_id])
    history = client.get_metric_history(runs[0].info.run_id, "step/reward_mean")
    same = [(point.step, point.value) for point in history] == rewards
    check("MLflow has each step of a run in two parts once, in one run", len(runs) == 1 and same, len(history))
    check("MLflow has the config, and the run as finished",
          runs[0].data.params["learner.learning_rate"] == "0.001" and runs[0].info.status == "FINISHED")
    artifacts = {artifact.path for artifact in client.list_artifacts(runs[0].info.run_id)}
    check("MLflow has evaluations and transcripts", artifacts == {"evaluations.json", "transcripts.json"}, artifacts)

    points, config, tables = {}, {}, set()
    for path in sorted(made.glob("wandb/offline-run-*/*.wandb")):
        store = DataStore()
        store.open_for_scan(str(path))
        while (data := store.scan_data()) is not None:
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            config.update({item.key: json.loads(item.value_json) for item in record.run.config.update})
            row = {item.key or ".".join(item.nested_key): json.loads(item.value_json) for item in record.history.item}
            tables |= {key for key in row if key.split(".")[0] in ("evaluations", "transcripts")}
            if "step/reward_mean" in row:
                points.setdefault(row["learner_step"], []).append(row["step/reward_mean"])
    check("W&B's own reader has each step once", points == {step: [reward] for step, reward in rewards}, len(points))
    check("W&B has the config and the tables", config.get("learner.learning_rate") == 0.001 and len(tables) >= 2, sorted(tables)[:2])


def check_prometheus(made):
    child = subprocess.Popen([PROGRAM, "view", made.name, "--folder", made.parent, "--port", "0"],
                             stdout=subprocess.PIPE, text=True)
    try:
        url = child.stdout.readline().strip()
        text = urllib.request.urlopen(url.rstrip("/") + "/metrics").read().decode()
    finally:
        child.terminate()
        child.wait()
    families = list(text_string_to_metric_families(text))
    mute = [family.name for family in families if not family.documentation]
    check("every family has HELP", families and not mute, mute or len(families))
    kinds = {family.name: family.type for family in families}
    check("totals are counters", kinds.get("tidemill_run_generated_tokens") == "counter")
    check("lags are a histogram", kinds.get("tidemill_run_lag_steps") == "histogram")
    check("no bucket in a name", not [name for name in kinds if "_hist_" in name])


def main():
    global PROGRAM
    if len(sys.argv) != 2:
        sys.exit(__doc__.splitlines()[0])
    PROGRAM = os.path.abspath(sys.argv[1])
    transformers.logging.set_verbosity_error()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tidemill-interop-"))
    try:
        base = check_models(folder)
        check_adapter_of_peft(folder, base)
        run("tasks", "generate", "--family", "cfunc", "--count", 60, "--seed", 3, "--out", folder / "train.jsonl")
        run("tasks", "generate", "--family", "cfunc", "--count", 4, "--seed", 4, "--split", "heldout", "--out", folder / "eval.jsonl")
        run("tasks", "model", "--family", "cfunc", "--width", 32, "--layers", 2, "--heads", 2, "--feed-forward", 64, "--out", folder / "shape")
        run("model", "new", "--config", folder / "shape/config.json", "--tokenizer", folder / "shape", "--seed", 1, "--out", folder / "demo")
        check_adapter_of_ours(folder)
        made = make_run(folder)
        check_tensorboard(made)
        check_pandas(folder, made)
        check_prometheus(made)
        check_trackers(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(FAILED)} failed" if FAILED else "all good")
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
