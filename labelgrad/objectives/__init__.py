"""One paper, one file: the terms that methods are sums of."""
