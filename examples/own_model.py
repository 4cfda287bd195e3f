"""Your own network on your own arrays: labels for all of them, and a page to look at."""

import numpy as np
from sklearn.datasets import load_digits
from torch import nn

import labelgrad

pictures, digits = load_digits(return_X_y=True)
labels = np.where(np.arange(len(digits)) < 100, digits, -1)  # -1: no label
network = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
result = labelgrad.fit(pictures.reshape(-1, 8, 8), labels, model=network, steps=3000)

print(result.verdict)
print(result.labels[0])
print(result.report("own_model.html"))
