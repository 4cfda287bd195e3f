"""Networks: the protocol's wide residual networks and a plain perceptron."""
