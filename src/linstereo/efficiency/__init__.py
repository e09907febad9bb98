"""The paper's efficiency tables on the user's own device: time, frames per second, operations and memory."""
