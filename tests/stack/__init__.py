"""The whole stack on real processes: what the pipeline is worth when they are killed."""
