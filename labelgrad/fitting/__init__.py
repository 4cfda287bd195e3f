"""From a person's data to a model worth keeping: held-out labels, a baseline beside, a folder."""
