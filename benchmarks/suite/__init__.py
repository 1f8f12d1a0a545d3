"""Workloads of the classes that ``ff.tune`` is judged by, beside NumPy, PyTorch and XLA."""
