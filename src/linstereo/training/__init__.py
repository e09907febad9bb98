"""Training the network: the loss and what follows from it."""
