#!/usr/bin/env python3
"""A model learns to ask a tool instead of guessing: python3 examples/python/train.py [FOLDER] [STEPS]

The tool and the scorer are Python functions (counting.py). A model of 0.1M parameters is first shown demonstrations of
which half guess; reinforcement learning makes the other half the rule. About two minutes on two cores.
"""
import json
import random
import sys
from pathlib import Path

import tidemill
from tidemill.program import run_program

sys.path.insert(0, str(Path(__file__).parent))
from counting import letters, right_number  # noqa: E402

SPECIAL = ["<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>"]
TEMPLATE = ("{% if tools %}{{ '<|im_start|>tools ' }}{% for t in tools %}{{ t.function.name }}{% endfor %}{{ '<|im_end|>\\n' }}{% endif %}"
            "{% for m in messages %}{% if m.role != 'system' %}{{ '<|im_start|>' + m.role + '\\n' }}"
            "{% if m.tool_calls %}{% for c in m.tool_calls %}{{ '<tool_call>\\n' + (c.function | tojson) + '\\n</tool_call>' }}{% endfor %}"
            "{% else %}{{ m.content }}{% endif %}{{ '<|im_end|>\\n' }}{% endif %}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
QUESTION = "How many letters?"
CALL = '<tool_call>\n{"name": "letters", "arguments": {"path": "word"}}\n</tool_call><|im_end|>'


def write_shape(folder: Path) -> None:
    """The tokenizer, bytes and a few marks, and the config of a small model."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    vocab = {chr(byte): byte for byte in plain} | {chr(256 + i): byte for i, byte in enumerate(others)}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    marks = [{"id": 256 + i, "content": mark, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": mark.startswith("<|")} for i, mark in enumerate(SPECIAL)]
    files = {
        "tokenizer.json": {
            "version": "1.0", "truncation": None, "padding": None, "added_tokens": marks, "normalizer": None,
            "pre_tokenizer": level, "post_processor": None, "decoder": level,
            "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                      "end_of_word_suffix": None, "fuse_unk": False, "vocab": vocab, "merges": []}},
        "tokenizer_config.json": {"eos_token": "<|im_end|>", "chat_template": TEMPLATE,
                                  "tokenizer_class": "PreTrainedTokenizerFast"},
        "generation_config.json": {"eos_token_id": 257},
        "config.json": {
            "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 260, "hidden_size": 64,
            "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
            "max_position_embeddings": 256, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
            "initializer_range": 0.05, "tie_word_embeddings": True, "eos_token_id": 257, "torch_dtype": "float32"}}
    folder.mkdir(parents=True, exist_ok=True)
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value), encoding="utf-8")


def turn(role: str, text: str) -> str:
    return f"<|im_start|>{role}\n{text}<|im_end|>\n"


def demonstrations(count: int, seed: int):
    """Half of them ask the tool and say what it says, half guess."""
    rng = random.Random(seed)
    asked = turn("tools", "").replace("tools\n", "tools letters") + turn("user", QUESTION) + "<|im_start|>assistant\n"
    for _ in range(count):
        number = str(rng.randint(3, 9))
        if rng.random() < 0.5:
            yield {"prompt": asked, "completion": number + "<|im_end|>", "special": True}
            continue
        yield {"prompt": asked, "completion": CALL, "special": True}
        yield {"prompt": asked + CALL + "\n" + turn("tool", number) + "<|im_start|>assistant\n",
               "completion": number + "<|im_end|>", "special": True}


def tasks(count: int, seed: int):
    rng = random.Random(seed)
    for n in range(count):
        word = "".join(rng.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(rng.randint(3, 9)))
        yield {"id": f"word-{n}", "prompt": QUESTION, "prompt_files": "none", "files": {"word": word + "\n"}, "tools": ["letters"],
               "metadata": {"letters": len(word)}, "weights": {"command": 1.0}}


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "build/counting")
    steps = int(sys.argv[2]) if len(sys.argv) > 2 else 15
    if not (folder / "warm" / "config.json").exists():
        write_shape(folder / "shape")
        with (folder / "demonstrations.jsonl").open("w", encoding="utf-8") as file:
            for line in demonstrations(3000, seed=1):
                file.write(json.dumps(line) + "\n")
        run_program("warmup", str(folder / "demonstrations.jsonl"), "--from-config", str(folder / "shape"), "--out",
                    str(folder / "warm"), "--learning-rate", "3e-3", "--max-steps", "250", "--evaluate-every", "125", "--minutes", "3")
    tidemill.write_tasks(tasks(200, seed=2), folder / "tasks.jsonl")
    run = tidemill.Run(None, {
        "run.steps": steps, "dashboard.web": False, "model.path": folder / "warm", "model.system_prompt": "-",
        "tasks.train": folder / "tasks.jsonl",
        "rollout": {"group_size": 8, "groups_per_step": 8, "max_turns": 3, "max_turn_tokens": 80},
        "learner": {"learning_rate": 1e-3, "warmup_steps": 0},
    }, folder=folder / "runs", reward=right_number, tools=[letters])
    with run:
        for line in run.follow("step"):
            print(f"step {line['step']}: reward {line['reward_mean']:.2f}", flush=True)
    print(run.wait()["status"])


if __name__ == "__main__":
    main()
