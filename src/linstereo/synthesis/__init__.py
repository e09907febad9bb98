"""Synthetic stereo pairs: random scenes, a ray caster, water, cameras with faults, exact ground truth."""
