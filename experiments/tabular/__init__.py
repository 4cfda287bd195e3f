"""How methods do on many small sets, and on the demo's digits."""
