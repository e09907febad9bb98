"""The datasets of stereo vision, one module each, and the catalogue that opens them by name."""
