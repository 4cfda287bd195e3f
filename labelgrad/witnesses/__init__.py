"""Anything with an opinion about labels: linear, trees, neighbours, files; and the pool of them."""
