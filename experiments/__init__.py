"""The experiments of the paper and on small tables; run from the repository, not installed."""
