"""The HTTP service: one process of `python -m edge.service`, stateless, any number of copies."""
