"""Benchmarks: ratios measured side by side in one run, since the machines they run on are shared and noisy."""
