"""Pretrained networks that make features of pictures and texts, and the cache of those."""
