"""The `labelgrad` command."""
