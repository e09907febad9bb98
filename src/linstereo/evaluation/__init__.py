"""Measuring disparity and depth: metrics, protocols, the benchmark runner and its report."""
