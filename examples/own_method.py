"""A training objective as a sum of terms, and the labels that LGA imputes."""

import torch
from sklearn.datasets import load_digits

from labelgrad import LGA, MLP, VAT, LazyAdam, Recipe, Supervised, TensorBatches
from labelgrad.schedules import Ramp

pixels, digits = load_digits(return_X_y=True)
order = torch.randperm(len(pixels), generator=torch.Generator().manual_seed(0))
x, y = torch.tensor(pixels / 16).float()[order], torch.tensor(digits)[order]
labeled = TensorBatches(x[:50], y[:50], batch_size=50)
unlabeled = TensorBatches(x[50:1450], batch_size=50)

lga = LGA(rows=len(unlabeled), width=10, rule=LazyAdam(0.1))
method = 0.1 * Supervised() + lga + Ramp(1000) * (0.3 * VAT(eps=0.3))
model = MLP(64, (128, 128), 10)
recipe = Recipe(model, method, labeled, unlabeled, learning_rate=2e-4, steps=3000)
run = recipe.run(examples={"test": (x[1450:], y[1450:])}).finish()

right = (lga.table.labels().argmax(-1) == y[50:1450]).double().mean()
print(f"test error {run.history[-1]['test_error']:.3f}, imputed labels right {right:.3f}")
print("the label of highest entropy:", lga.table.labels()[lga.table.entropy().argmax()].tolist())
