"""How others than workers reach the product: the HTTP service, and its Python client."""
