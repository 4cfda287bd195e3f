"""Ways to change examples without changing what they are."""
