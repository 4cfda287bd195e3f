"""Pictures, drawn from results alone: nothing here trains."""
