"""Looking at training from outside: how the loss is curved where a step is taken."""
