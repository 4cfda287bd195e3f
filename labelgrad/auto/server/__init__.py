"""The review page: a small server for one person's own machine."""
