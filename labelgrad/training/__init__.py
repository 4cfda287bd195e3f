"""Training that knows no method: one step, an evaluation, a checkpoint, a run."""
