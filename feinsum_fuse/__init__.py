"""Cascades of einsums and LoopTree mappings in; verified, timed, predicted and remembered OpenCL kernels out."""
