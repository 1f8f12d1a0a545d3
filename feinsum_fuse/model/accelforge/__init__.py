"""AccelForge's formulas: a mapping on an architecture, its figures as AccelForge computes them.

Source: AccelForge (github.com/Accelergy-Project/accelforge, commit 1c1929c2). Files that modules here name, such as ``_symbolic.py``, are
those of its ``accelforge/model/_looptree``. Gilbert et al., "LoopTree: Exploring the Fused-layer Dataflow Accelerator Design Space"
(arXiv 2409.13625), has the idea.
"""
