"""Whole jobs on known data, each a function of its settings."""
