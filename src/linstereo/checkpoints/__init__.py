"""Weights on disk and on the hub: reading, checking and writing them, and what a network is made of."""
