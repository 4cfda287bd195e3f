"""Examples on their way to the model, and the data sets they come from."""
