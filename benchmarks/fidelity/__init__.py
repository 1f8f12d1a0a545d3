"""How good the kernel model is on workloads that it was not made for: cases, drawing, measuring, judging."""
