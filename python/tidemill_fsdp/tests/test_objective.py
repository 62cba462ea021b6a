"""The loss against values computed elsewhere in float64 (tests/golden/objectives.json)."""

import json
import os
import unittest

import torch

from tidemill_fsdp import objective

GOLDEN = os.path.join(os.environ["TIDEMILL_GOLDEN"], "objectives.json")


def row_tensor(rows, mask) -> torch.Tensor:
    values = [value for row, kept in zip(rows, mask) for value, keep in zip(row, kept) if keep]
    return torch.tensor(values, dtype=torch.float64)


class ObjectiveTest(unittest.TestCase):
    def test_every_objective_has_the_loss_and_the_gradient_of_the_reference(self):
        with open(GOLDEN) as file:
            batches = json.load(file)["batches"]
        compared = 0
        for batch in batches:
            sequences = batch["sequences"]
            mask = [s["mask"] for s in sequences]
            owner = torch.tensor([i for i, row in enumerate(mask) for m in row if m])
            given = {n: row_tensor([s[n] for s in sequences], mask) for n in ("behaviour", "proximal", "reference")}
            for wanted in batch["objectives"]:
                options = dict(wanted["options"])
                advantages = torch.tensor(batch["advantages"][options.pop("advantage")], dtype=torch.float64)
                choices = objective.Objective(
                    proximal="given", entropy_coefficient=0.0, value_coefficient=0.0, **options
                )
                current = row_tensor([s["current"] for s in sequences], mask).requires_grad_()
                tokens = objective.Tokens(
                    current, given["behaviour"], given["proximal"], advantages[owner], owner, len(sequences),
                    given["reference"],
                )  # fmt: skip
                loss, sums = objective.compute(choices, tokens, objective.Totals(len(owner), len(sequences)))
                loss.backward()
                self.assertAlmostEqual(loss.item(), wanted["loss"], delta=1e-10)
                gradient = row_tensor(wanted["grad"], mask)
                self.assertLess((current.grad - gradient).abs().max().item(), 1e-10, wanted["options"])
                self.assertEqual(sums[0].item(), len(owner))
                compared += 1
        self.assertGreaterEqual(compared, 60)


if __name__ == "__main__":
    unittest.main()
