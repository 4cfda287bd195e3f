"""Examples on their way to the model, and the data sets that come with the package."""
