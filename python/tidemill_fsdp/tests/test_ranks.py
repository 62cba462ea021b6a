"""Ranks against numbers of transformers and PEFT (tests/golden), each other, and what they promise when a step fails."""

import os
import signal
import tempfile
import time
import unittest

import numpy
import torch
from safetensors.torch import load_file

from tests.driver import Group, batch, update

GOLDEN = os.environ["TIDEMILL_GOLDEN"]
ADAMW = {"weight_decay": 0.1}


def model(name: str) -> str:
    return os.path.join(GOLDEN, name)


def rows_of(name: str) -> tuple[list[list[int]], dict]:
    expected = load_file(os.path.join(model(name), "expected.safetensors"))
    rows, i = [], 0
    while f"seq{i}.ids" in expected:
        rows.append(expected[f"seq{i}.ids"].tolist())
        i += 1
    return rows, expected


def there(name: str) -> bool:
    return os.path.isdir(model(name))


class RanksTest(unittest.TestCase):
    def compare(self, name: str, ranks: int) -> None:
        rows, expected = rows_of(name)
        group = Group(ranks, model=model(name), **ADAMW)
        parts, arrays = batch(rows, ranks)
        scores = group.tell("score", arrays, parts=parts, of="policy").arrays["logprobs"]
        wanted = numpy.concatenate([expected[f"seq{i}.logprobs"].numpy() for i in range(len(rows))])
        self.assertLess(numpy.abs(scores - wanted).max(), 2e-5, name)
        with tempfile.TemporaryDirectory() as folder:
            update(group, rows, 0.0)
            file = os.path.join(folder, "gradients.safetensors")
            group.tell("gradients", file=file)
            gradients = load_file(file)
            compared = 0
            for key, value in gradients.items():
                for piece, wanted in self.wanted(key, value, expected):
                    worst = (piece - wanted).abs().max().item()
                    self.assertLessEqual(worst, 1e-4 * wanted.abs().max().item() + 1e-9, key)
                    compared += 1
            self.assertEqual(compared, sum(1 for key in expected if key.startswith("grad.")), name)
        group.close()
        # From equal weights: a rate of 0 leaves the moments of that step behind.
        group = Group(ranks, model=model(name), **ADAMW)
        losses = [update(group, rows, 1e-3).words["loss"] for _ in range(3)]
        for got, wanted in zip(losses, expected["adamw.losses"].tolist()):
            self.assertLessEqual(abs(got - wanted), 1e-5 * abs(wanted), name)
        self.assertEqual(group.close(), 0)

    def wanted(self, key: str, value: torch.Tensor, expected: dict):
        from tidemill_fsdp.files import pieces_of

        for piece in pieces_of(key, value.shape):
            yield piece.take(value), expected["grad." + piece.name]

    def test_a_dense_model_has_the_gradients_and_steps_of_the_reference(self):
        for name in ("qwen2-tiny", "qwen3-tiny", "llama-tiny", "gemma3-tiny"):
            if there(name):
                self.compare(name, 1)
        self.compare("qwen2-tiny", 2)
        self.compare("qwen3-tiny", 2)

    @unittest.skipUnless(there("qwen3-moe-tiny"), "tests/golden has no model with experts")
    def test_experts_have_the_gradients_of_the_reference_and_lie_on_disk_as_they_were(self):
        self.compare("qwen3-moe-tiny", 1)
        self.compare("qwen3-moe-tiny", 2)
        group = Group(2, model=model("qwen3-moe-tiny"))
        with tempfile.TemporaryDirectory() as folder:
            group.tell("publish", folder=folder, dtype="float32", merged=True)
            self.assert_same(folder, model("qwen3-moe-tiny"))
        group.close()

    def assert_same(self, folder: str, source: str) -> None:
        got, wanted = (load_file(os.path.join(f, "model.safetensors")) for f in (folder, source))
        self.assertEqual(got.keys(), wanted.keys())
        for key, value in wanted.items():
            self.assertTrue(torch.equal(got[key], value.to(got[key].dtype)), key)

    def test_a_publication_is_the_model_and_a_resumed_group_takes_the_same_step(self):
        name = "qwen2-tiny"
        rows, _ = rows_of(name)
        with tempfile.TemporaryDirectory() as folder:
            group = Group(2, model=model(name))
            published = group.tell("publish", folder=f"{folder}/0", dtype="float32", merged=True)
            self.assertEqual(published.words["bytes"], os.path.getsize(f"{folder}/0/model.safetensors"))
            self.assert_same(f"{folder}/0", model(name))
            update(group, rows, 1e-3)
            steps = group.tell("checkpoint", folder=f"{folder}/step").words["optimizer_steps"]
            after = update(group, rows, 1e-3).words
            group.close()
            for ranks in (2, 1):
                group = Group(ranks, model=model(name))
                group.tell("restore", folder=f"{folder}/step", optimizer_steps=steps)
                again = update(group, rows, 1e-3).words
                group.close()
                if ranks == 2:
                    self.assertEqual(after, again)
                else:
                    self.assertLess(abs(after["grad_norm"] - again["grad_norm"]), 1e-5 * after["grad_norm"])

    def test_an_adapter_trains_alone_and_is_merged_where_it_is_asked_for(self):
        name = "qwen2-tiny"
        rows, _ = rows_of(name)
        adapter = os.path.join(model(name), "lora")
        norms = []
        for ranks in (1, 2):
            group = Group(ranks, model=model(name), adapter=adapter)
            with tempfile.TemporaryDirectory() as folder:
                group.tell("publish", folder=f"{folder}/a", dtype="float32", merged=False)
                got = load_file(f"{folder}/a/adapter_model.safetensors")
                wanted = load_file(f"{adapter}/adapter_model.safetensors")
                self.assertEqual(got.keys(), wanted.keys())
                for key in wanted:
                    self.assertTrue(torch.equal(got[key], wanted[key].float()), key)
                group.tell("publish", folder=f"{folder}/m", dtype="float32", merged=True)
                whole = Group(1, model=f"{folder}/m")
                parts, arrays = batch(rows, 1)
                merged = whole.tell("score", arrays, parts=parts, of="policy").arrays["logprobs"]
                whole.close()
                parts, arrays = batch(rows, ranks)
                apart = group.tell("score", arrays, parts=parts, of="policy").arrays["logprobs"]
                self.assertLess(numpy.abs(merged - apart).max(), 2e-5)
            norms.append(update(group, rows, 1e-3).words["grad_norm"])
            group.close()
        self.assertLess(abs(norms[0] - norms[1]), 1e-5 * norms[0])

    def test_a_step_without_a_finite_loss_changes_nothing_on_any_rank(self):
        name = "qwen2-tiny"
        rows, _ = rows_of(name)
        group, other = Group(2, model=model(name)), Group(2, model=model(name))
        parts, arrays = batch(rows, 2)
        arrays["advantages"] = numpy.full_like(arrays["advantages"], numpy.nan)
        from tests.driver import PLAIN

        failed = group.tell("update", arrays, parts=parts, objective=PLAIN, totals={"tokens": 9, "sequences": 3},
                            rate=1e-3, clip=1.0)  # fmt: skip
        self.assertFalse(failed.words["finite"])
        self.assertEqual(update(group, rows, 1e-3).words, update(other, rows, 1e-3).words)
        # Several updates are taken back together.
        before = update(group, rows, 0.0).words["loss"]
        group.tell("begin")
        update(group, rows, 1e-2)
        group.tell("undo")
        self.assertEqual(update(group, rows, 0.0).words["loss"], before)
        group.close()
        other.close()

    def test_computing_layers_again_and_bfloat16_give_about_the_same(self):
        name = "qwen2-tiny"
        rows, _ = rows_of(name)
        words = []
        for more in ({}, {"recompute": True}, {"precision": "bfloat16"}):
            group = Group(1, model=model(name), **more)
            words.append(update(group, rows, 1e-3).words)
            group.close()
        self.assertLess(abs(words[1]["grad_norm"] - words[0]["grad_norm"]), 1e-5 * words[0]["grad_norm"])
        self.assertLess(abs(words[2]["loss"] - words[0]["loss"]), 2e-2 * words[0]["loss"])

    def test_a_killed_rank_ends_the_group_and_the_socket_says_so(self):
        group = Group(2, model=model("qwen2-tiny"))
        os.kill(group.about.words["pids"][1], signal.SIGKILL)
        rows, _ = rows_of("qwen2-tiny")
        began = time.monotonic()
        with self.assertRaises((EOFError, ConnectionError, BrokenPipeError)):
            while time.monotonic() - began < 60:
                update(group, rows, 0.0)
        self.assertNotEqual(group.process.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
