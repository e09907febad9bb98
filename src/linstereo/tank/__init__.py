"""The laboratory tank: depth of a known target, placed in each picture by its AprilTags."""
