"""All of a image set with few labels and a network that learns fast on a CPU: scale `whole`."""
