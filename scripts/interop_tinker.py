#!/usr/bin/env python3
"""Usage: interop_tinker.py PROGRAM [CLIENT.py]

The public tinker client trains and samples on `tidemill tinker`: losses against their formulas, custom losses, chunks,
a server that is killed and started again, two clients at once. CLIENT.py is a program of the client that is run as it
is, with the server's address as its argument. Prints a line for each check and ends with status 1 if one failed.
scripts/interop installs what it needs.
"""
import math
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import warnings

os.environ.setdefault("TINKER_API_KEY", "tml-interop")
os.environ.setdefault("TINKER_TELEMETRY", "0")
warnings.simplefilter("ignore")

import numpy
import tinker
import torch
import transformers
from peft import PeftModel
from tinker import types

FAILED = []


def check(name, good, detail=""):
    print(f"{'ok  ' if good else 'FAIL'}  {name}{'  ' + str(detail) if detail != '' else ''}", flush=True)
    if not good:
        FAILED.append(name)


class Server:
    """The program on a port of its own, which it keeps when it is started again."""

    def __init__(self, program, model, folder):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.words = [program, "--log-level", "warn", "tinker", f"demo/demo={model}", "--folder", str(folder), "--port", str(port)]
        self.url = f"http://127.0.0.1:{port}"
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.words, stdout=subprocess.PIPE, text=True)
        if not self.process.stdout.readline():
            sys.exit("the server did not start")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def again(self):
        self.kill()
        self.start()


def datum(ids, **inputs):
    return types.Datum(model_input=types.ModelInput.from_ints(ids[:-1]), loss_fn_inputs={"target_tokens": ids[1:], **inputs})


def batch(seed, count=5, **extra):
    random = numpy.random.default_rng(seed)
    made = []
    for _ in range(count):
        ids = random.integers(3, 60, size=int(random.integers(4, 12))).tolist()
        n = len(ids) - 1
        made.append(datum(ids, weights=random.normal(size=n).astype("float32").tolist()) if not extra else datum(
            ids, logprobs=(-4 + 0.3 * random.normal(size=n)).astype("float32").tolist(),
            advantages=random.normal(size=n).astype("float32").tolist(),
            **({"sequence_ratio_mask": [1.0] * n} if extra.get("gspo") else {})))
    return made


def numbers(tensor):
    return numpy.asarray(tensor.tolist(), dtype=numpy.float64)


def formula(loss, data, outputs, low=0.8, high=1.2, beta=0.1):
    total = 0.0
    for one, output in zip(data, outputs):
        p = numbers(output["logprobs"])
        if loss == "cross_entropy":
            total -= (numbers(one.loss_fn_inputs["weights"]) * p).sum()
            continue
        q, a = numbers(one.loss_fn_inputs["logprobs"]), numbers(one.loss_fn_inputs["advantages"])
        r = numpy.exp(p - q)
        if loss == "gspo":
            r = numpy.full_like(p, math.exp((p - q).mean()))
        total -= {
            "importance_sampling": lambda: (r * a).sum(),
            "ppo": lambda: numpy.minimum(r * a, r.clip(low, high) * a).sum(),
            "gspo": lambda: numpy.minimum(r * a, r.clip(low, high) * a).sum(),
            "cispo": lambda: (r.clip(low, high) * p * a).sum(),
            "dro": lambda: (p * a - beta / 2 * (p - q) ** 2).sum(),
        }[loss]()
    return total


def check_losses(service):
    model = service.create_lora_training_client(base_model="demo/demo", rank=8, seed=1).result()
    for loss in ["cross_entropy", "importance_sampling", "ppo", "cispo", "dro", "gspo"]:
        data = batch(7) if loss == "cross_entropy" else batch(7, gspo=loss == "gspo")
        result = model.forward(data, loss, {"beta": 0.1} if loss == "dro" else None).result()
        wanted = formula(loss, data, result.loss_fn_outputs)
        gap = abs(result.metrics["loss:sum"] - wanted) / max(1.0, abs(wanted))
        check(f"{loss} is its formula", gap < 1e-5, f"{gap:.1e}")
    try:
        model.forward_backward(batch(1), "stable_reinforce").result()
        check("an unknown loss is refused", False)
    except Exception as error:  # whichever of its types the client has for it
        check("an unknown loss is refused by name", "stable_reinforce" in str(error), type(error).__name__)


def weights_after(service, steps, between=lambda: None, custom=False):
    """Log-probabilities of a text under a model that took these steps."""
    model = service.create_lora_training_client(base_model="demo/demo", rank=4, seed=3).result()
    for step in range(steps):
        between()
        data = batch(100 + step)
        if custom:
            def loss(_, logprobs):
                weights = [one.loss_fn_inputs["weights"].to_torch() for one in data]
                total = -sum((w * p).sum() for w, p in zip(weights, logprobs))
                return total, {"own": float(total)}
            passed = model.forward_backward_custom(data, loss)
        else:
            passed = model.forward_backward(data, "cross_entropy")
        stepped = model.optim_step(types.AdamParams(learning_rate=1e-2))
        between()
        passed.result(), stepped.result()
    between()
    sampler = model.save_weights_and_get_sampling_client().result()
    between()
    return sampler.compute_logprobs(types.ModelInput.from_ints([5, 9, 13, 21, 34])).result()[1:]


def check_kills(service, server):
    wanted = weights_after(service, 3)
    got = weights_after(service, 3, server.again)
    check("a client goes on over kills between its calls, with the same weights", got == wanted, [round(x, 4) for x in got])
    custom = weights_after(service, 3, custom=True)
    gap = max(abs(a - b) for a, b in zip(custom, wanted))
    check("a custom loss of the same formula gives the same weights", gap < 1e-3, f"{gap:.1e}")
    return wanted


def check_two(server, wanted):
    got = [None, None]

    def learn(place):
        with tinker.ServiceClient(base_url=server.url) as service:
            got[place] = weights_after(service, 3)

    threads = [threading.Thread(target=learn, args=[i]) for i in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    check("two clients at once learn as if each were alone", got == [wanted, wanted])


def check_learning(service):
    model = service.create_lora_training_client(base_model="demo/demo", rank=8, seed=2).result()
    text = [datum([5, 9, 13, 21, 34, 55], weights=[1.0] * 5)]
    losses = []
    for _ in range(60):
        passed = model.forward_backward(text, "cross_entropy")
        model.optim_step(types.AdamParams(learning_rate=3e-2)).result()
        losses.append(passed.result().metrics["loss:sum"])
    check("a text is learned", losses[-1] < 0.3 * losses[0], f"{losses[0]:.2f} to {losses[-1]:.2f}")
    sampler = model.save_weights_and_get_sampling_client().result()
    drawn = sampler.sample(types.ModelInput.from_ints([5, 9]), 2, types.SamplingParams(max_tokens=4, temperature=0.0, stop=[55]),
                           include_prompt_logprobs=True, topk_prompt_logprobs=2).result()
    check("and drawn, up to a stop id", all(one.tokens[-1] == 55 or len(one.tokens) == 4 for one in drawn.sequences), drawn.sequences[0].tokens)
    best = drawn.topk_prompt_logprobs[1][0]
    check("the likeliest token of the prompt is known", best[1] >= drawn.prompt_logprobs[1] - 1e-5, best)


def theirs(loss, row, logits):
    """The loss of one datum by torch's own functions."""
    inputs = row.loss_fn_inputs
    targets = torch.tensor(inputs["target_tokens"].tolist())
    p = torch.log_softmax(logits, -1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    if loss == "cross_entropy":
        return -(torch.tensor(inputs["weights"].tolist()) * p).sum()
    q, a = torch.tensor(inputs["logprobs"].tolist()), torch.tensor(inputs["advantages"].tolist())
    r = (p - q).exp()
    return {
        "importance_sampling": lambda: -(r * a).sum(),
        "ppo": lambda: -torch.minimum(r * a, r.clamp(0.8, 1.2) * a).sum(),
        "cispo": lambda: -(r.clamp(0.8, 1.2).detach() * p * a).sum(),
        "dro": lambda: -(p * a - 0.05 * (p - q) ** 2).sum(),
    }[loss]()


def check_against_torch(service, base, kept):
    """The same adapter, batches and AdamW in transformers and PEFT."""
    text = [5, 9, 13, 21, 34, 8, 3]
    for loss in ["cross_entropy", "importance_sampling", "ppo", "cispo", "dro"]:
        model = service.create_lora_training_client(base_model="demo/demo", rank=4, seed=9).result()
        model.save_weights_for_sampler("start").result()
        start = kept / "checkpoints" / model.model_id / "sampler_weights" / "start"
        peft = PeftModel.from_pretrained(transformers.AutoModelForCausalLM.from_pretrained(base, torch_dtype=torch.float32), start,
                                         is_trainable=True)
        adam = torch.optim.AdamW([w for w in peft.parameters() if w.requires_grad], lr=1e-2, betas=(0.9, 0.95), eps=1e-6, weight_decay=0.01)
        losses = []
        for step in range(4):
            data = batch(500 + step) if loss == "cross_entropy" else batch(500 + step, ratios=True)
            passed = model.forward_backward(data, loss, {"beta": 0.1} if loss == "dro" else None)
            model.optim_step(types.AdamParams(learning_rate=1e-2, eps=1e-6, weight_decay=0.01)).result()
            total = sum(theirs(loss, row, peft(torch.tensor([row.model_input.to_ints()])).logits[0]) for row in data)
            adam.zero_grad()
            total.backward()
            adam.step()
            losses.append(abs(passed.result().metrics["loss:sum"] - total.item()) / max(1.0, abs(total.item())))
        got = model.save_weights_and_get_sampling_client().result().compute_logprobs(types.ModelInput.from_ints(text)).result()[1:]
        with torch.no_grad():
            logprobs = torch.log_softmax(peft(torch.tensor([text])).logits[0], -1)
        wanted = [logprobs[i, text[i + 1]].item() for i in range(len(text) - 1)]
        gap = max(abs(a - b) for a, b in zip(got, wanted))
        check(f"{loss}: four steps are those of torch and PEFT", max(losses) < 1e-5 and gap < 1e-3, f"losses {max(losses):.1e}, text {gap:.1e}")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.splitlines()[0])
    program = os.path.abspath(sys.argv[1])
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tidemill-tinker-"))
    server = None
    try:
        for words in [["tasks", "model", "--family", "cfunc", "--width", "32", "--layers", "2", "--heads", "2", "--feed-forward", "64",
                       "--out", folder / "shape"],
                      ["model", "new", "--config", folder / "shape/config.json", "--tokenizer", folder / "shape", "--seed", "1",
                       "--out", folder / "demo"]]:
            subprocess.run([program, *map(str, words)], check=True, stdout=subprocess.DEVNULL)
        server = Server(program, folder / "demo", folder / "kept")
        print(f"tinker {tinker.__version__}", flush=True)
        if len(sys.argv) == 3:
            started = time.time()
            ran = subprocess.run([sys.executable, sys.argv[2], server.url], capture_output=True, text=True, timeout=300)
            check("a program of the client runs as it is", ran.returncode == 0 and "ok" in ran.stdout,
                  f"{time.time() - started:.1f} s" if ran.returncode == 0 else ran.stdout + ran.stderr[-3000:])
        with tinker.ServiceClient(base_url=server.url) as service:
            check_losses(service)
            check_learning(service)
            check_against_torch(service, folder / "demo", folder / "kept")
            wanted = check_kills(service, server)
        check_two(server, wanted)
    finally:
        if server is not None:
            server.kill()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{len(FAILED)} failed" if FAILED else "all good")
    sys.exit(1 if FAILED else 0)


if __name__ == "__main__":
    main()
