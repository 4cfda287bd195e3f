"""Base models: what the ensemble is stacked from, and what it is compared with."""
