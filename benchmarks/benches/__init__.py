"""The benches, a module for each part of the product."""
