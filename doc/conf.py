"""Sphinx configuration."""

project = "feinsum_fuse"
author = "The feinsum_fuse maintainers"
copyright = "2026, The feinsum_fuse maintainers"
extensions = ["sphinx.ext.autodoc"]
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
exclude_patterns = ["_build"]
html_theme = "alabaster"
html_theme_options = {"description": "Cascades of einsums and LoopTree mappings in; verified, timed, predicted OpenCL kernels out"}
