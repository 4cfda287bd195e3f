"""Your own network on your own arrays: a label for each example, and a report."""

import numpy as np
from sklearn.datasets import load_digits
from torch import nn

import labelgrad

images, digits = load_digits(return_X_y=True)
labels = np.where(np.arange(len(digits)) < 100, digits, -1)  # -1: no label
network = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
result = labelgrad.fit(images.reshape(-1, 8, 8), labels, network=network, steps=3000)

print(result.summary)
print(result.labels.filter(source="imputed").head(3))
print(result.report("own_model.html"))
