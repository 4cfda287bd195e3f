"""A method written as a sum, trained, with the labels it learned."""

from labelgrad import LGA, MLP, VAT, LazyAdam, Recipe, Supervised, TensorBatches
from labelgrad.datasets.digits import digits
from labelgrad.schedules import Ramp

split = digits(labels=50, seed=0)
labeled = TensorBatches(*split.labeled, batch_size=50)
unlabeled = TensorBatches(split.unlabeled[0], batch_size=50)

lga = LGA(rows=len(unlabeled), width=10, rule=LazyAdam(0.1))
method = 0.1 * Supervised() + lga + Ramp(1000) * (0.3 * VAT(eps=0.3))
model = MLP(64, (128, 128), 10)
recipe = Recipe(model, method, labeled, unlabeled, learning_rate=2e-4, steps=3000)
run = recipe.run(examples={"test": split.test}).finish()

right = (lga.table.labels().argmax(-1) == split.unlabeled[1]).double().mean()
print(f"test error {run.history[-1]['test_error']:.3f}, imputed labels right {right:.3f}")
print("the least sure label:", lga.table.labels()[lga.table.entropy().argmax()].tolist())
