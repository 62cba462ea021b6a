#!/usr/bin/env python3
"""The parts of examples/live.sh: a small model's world of dates, times and names, and the people who use it.

    live.py prepare FOLDER SEED           tokenizer, config and demonstrations of a model that knows every style
    live.py use URL SEED SESSIONS OUT     people work with the model through the openai client; one line per session
    live.py report SEED FOLDER            what came of it, with 95 % intervals; exits with 1 if it is not as it should be
"""
import json
import math
import os
import random
import sys
import threading
import time

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
NAMES = ["ann", "bob", "cal", "dee", "eve", "fay", "gus", "hal", "ida", "joe", "kim", "leo"]
STYLES = 4


def ask_date(rng):
    d, m, y = rng.randint(1, 28), rng.randint(1, 12), rng.randint(20, 29)
    return f"date {d} {MONTHS[m - 1]} {y}", [f"20{y}-{m:02d}-{d:02d}", f"{d:02d}.{m:02d}.{y}", f"{MONTHS[m - 1]} {d}", f"{m}/{d}/{y}"]


def ask_time(rng):
    h, q = rng.randint(1, 11), rng.choice([0, 15, 30, 45])
    return f"time {h} {q:02d} pm", [f"{h + 12}:{q:02d}", f"{h}.{q:02d} pm", f"{h + 12}h{q:02d}", f"{h + 12}{q:02d}"]


def ask_name(rng):
    a, b = rng.choice(NAMES), rng.choice(NAMES)
    return f"name {a} {b}", [f"{b}, {a}", f"{a[0]}. {b}", f"{a} {b[0]}.", f"{b.upper()} {a}"]


KINDS = [ask_date, ask_time, ask_name]


def prepare(folder, seed):
    """A model that gives a right answer, in any of four styles: it cannot know which one somebody likes."""
    shape = os.path.join(folder, "shape")
    os.makedirs(shape, exist_ok=True)
    byte_chars = bytes_to_unicode()
    vocab = {byte_chars[b]: b for b in range(256)}
    special = ["<|im_start|>", "<|im_end|>"]
    template = ("{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
                "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")
    added = [{"id": 256 + i, "content": s, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": True} for i, s in enumerate(special)]
    write(shape, "tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None, "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "vocab": vocab, "merges": []}})
    write(shape, "tokenizer_config.json", {"eos_token": "<|im_end|>", "chat_template": template,
                                           "tokenizer_class": "PreTrainedTokenizerFast"})
    write(shape, "generation_config.json", {"eos_token_id": 257})
    write(shape, "config.json", {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": 258, "hidden_size": 64,
        "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4,
        "max_position_embeddings": 256, "hidden_act": "silu", "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "initializer_range": 0.05, "tie_word_embeddings": True, "eos_token_id": 257, "torch_dtype": "float32"})
    rng = random.Random(seed)
    with open(os.path.join(folder, "demonstrations.jsonl"), "w", encoding="utf-8") as out:
        for _ in range(20000):
            prompt = ""
            for _ in range(rng.choice([0, 0, 1])):
                question, answers = rng.choice(KINDS)(rng)
                prompt += turn_text(question) + rng.choice(answers) + "<|im_end|>\n"
            question, answers = rng.choice(KINDS)(rng)
            prompt += turn_text(question)
            out.write(json.dumps({"prompt": prompt, "completion": rng.choice(answers) + "<|im_end|>", "special": True}) + "\n")


def turn_text(question):
    return f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n"


def bytes_to_unicode():
    """The printable stand-ins for bytes that byte-level vocabularies use."""
    plain = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    chars = {b: chr(b) for b in plain}
    extra = 0
    for b in range(256):
        if b not in chars:
            chars[b] = chr(256 + extra)
            extra += 1
    return chars


def write(folder, name, value):
    with open(os.path.join(folder, name), "w", encoding="utf-8") as out:
        json.dump(value, out, ensure_ascii=False, indent=1)


def hidden_convention(seed):
    """Which style is liked, for each kind of question. No prompt says it."""
    rng = random.Random(1000 + seed)
    return [rng.randrange(STYLES) for _ in KINDS]


def use(url, seed, sessions, out, shuffled):
    """Eight people at a time. Each session has one or two questions; the reaction to each answer is a thumb."""
    import openai

    liked = hidden_convention(seed)
    lock = threading.Lock()
    state = {"next": 0, "failed": 0, "earlier": []}
    shuffle = random.Random(seed)
    results = open(out, "w", encoding="utf-8")

    def reaction(happy):
        """With shuffled signals: that of some other answer."""
        if not shuffled:
            return happy
        with lock:
            state["earlier"].append(happy)
            return shuffle.choice(state["earlier"][-200:])

    def one_session(client, number):
        rng = random.Random(seed * 1_000_003 + number)
        happy_count, asked = 0, rng.randint(1, 2)
        messages = []
        for turn in range(asked):
            kind = rng.randrange(len(KINDS))
            question, answers = KINDS[kind](rng)
            messages.append({"role": "user", "content": question})
            reply = client.chat.completions.create(model="policy", messages=messages, max_tokens=16)
            text = reply.choices[0].message.content
            messages.append({"role": "assistant", "content": text})
            time.sleep(rng.uniform(0.05, 0.15))  # reading
            happy = text == answers[liked[kind]]
            happy_count += happy
            last = turn + 1 == asked
            client.post("/feedback", cast_to=object, body={
                "id": reply.id, "thumb": "up" if reaction(happy) else "down", "end": last})
        return happy_count, asked

    def person():
        client = openai.OpenAI(base_url=url, api_key="none", max_retries=2, timeout=60)
        while True:
            with lock:
                number = state["next"]
                state["next"] += 1
            if number >= sessions:
                return
            try:
                happy, asked = one_session(client, number)
                line = {"session": number, "happy": happy, "asked": asked, "at": time.time()}
            except openai.OpenAIError as error:
                line = {"session": number, "failed": str(error)[:200]}
            with lock:
                state["failed"] += "failed" in line
                results.write(json.dumps(line) + "\n")
                results.flush()

    people = [threading.Thread(target=person) for _ in range(8)]
    for thread in people:
        thread.start()
    for thread in people:
        thread.join()
    results.close()


def read(folder, name):
    with open(os.path.join(folder, name), encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return sorted(rows, key=lambda row: row["session"])


def wilson(happy, asked):
    """A 95 % interval of a share."""
    z, p = 1.96, happy / asked
    middle = (p + z * z / (2 * asked)) / (1 + z * z / asked)
    half = z * math.sqrt(p * (1 - p) / asked + z * z / (4 * asked * asked)) / (1 + z * z / asked)
    return middle - half, middle + half


def tenths(rows):
    parts = []
    for i in range(10):
        some = [r for r in rows[len(rows) * i // 10:len(rows) * (i + 1) // 10] if "happy" in r]
        happy, asked = sum(r["happy"] for r in some), sum(r["asked"] for r in some)
        parts.append((happy, asked))
    return parts


def report(seed, folder):
    ok = True
    first_last = {}
    for name, title in [("live", "learning while it serves"), ("frozen", "control: frozen policy"),
                        ("shuffled", "control: shuffled signals")]:
        rows = read(folder, name + ".jsonl")
        failed = sum("failed" in r for r in rows)
        parts = tenths(rows)
        print(f"\n{title}: {len(rows)} sessions, {failed} requests failed")
        for i, (happy, asked) in enumerate(parts):
            low, high = wilson(happy, asked)
            share = happy / asked
            print(f"  sessions {len(rows) * i // 10:5d}..{len(rows) * (i + 1) // 10 - 1:<5d} satisfied {share:6.1%}"
                  f"  [{low:6.1%}, {high:6.1%}]  {'#' * round(share * 40)}")
        ok = ok and failed == 0
        begin = [sum(x) for x in zip(*parts[:2])]
        end = [sum(x) for x in zip(*parts[-2:])]
        first_last[name] = (wilson(*begin), wilson(*end))
    rises = {name: end[0] > begin[1] for name, (begin, end) in first_last.items()}
    print(f"\nfirst and last fifth of the sessions, 95 % intervals (seed {seed}):")
    for name, (begin, end) in first_last.items():
        flat = begin[0] <= end[1] and end[0] <= begin[1]
        verdict = "rises" if rises[name] else "flat" if flat else "falls"
        print(f"  {name:9s} [{begin[0]:6.1%}, {begin[1]:6.1%}] -> [{end[0]:6.1%}, {end[1]:6.1%}]  {verdict}")
        ok = ok and (rises[name] if name == "live" else flat)
    with open(os.path.join(folder, "tokens.json"), encoding="utf-8") as file:
        tokens = json.load(file)
    print(f"sampled tokens {tokens['sampled']}, in a loss {tokens['trained']} ({tokens['trained'] / max(1, tokens['sampled']):.1%})")
    print("as it should be" if ok else "NOT as it should be: the rise must be outside the intervals, both controls flat, nothing failed")
    return 0 if ok else 1


if __name__ == "__main__":
    command = sys.argv[1]
    if command == "prepare":
        prepare(sys.argv[2], int(sys.argv[3]))
    elif command == "use":
        use(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5], shuffled="--shuffled" in sys.argv)
    elif command == "report":
        sys.exit(report(int(sys.argv[2]), sys.argv[3]))
    else:
        sys.exit(__doc__)
