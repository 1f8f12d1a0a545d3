"""The catalogue: what performance engineers know about classes of Einsums, each as a short function that leaves numbers to a search.

A module is a class of workloads. A transform sees roles of indices and sizes, never names and never what is computed.
"""
