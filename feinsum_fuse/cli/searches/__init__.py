"""Verbs that search for mappings."""
