"""The page to work on: a run's labels looked at, decided, and handed back; without PyTorch."""
