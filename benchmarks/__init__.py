"""Benchmarks of the measuring itself. They need a device: `make bench-sweep` and `make bench-repeat` run them."""
