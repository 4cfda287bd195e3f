"""What can go wrong in a run, apart from wrong arguments."""


class TrainingDivergedError(RuntimeError):
    """A loss or gradient stopped being a finite number."""


class CheckpointError(RuntimeError):
    """A checkpoint could not be written, read, or used here."""
