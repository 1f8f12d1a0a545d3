"""Workloads that many programs hold, and facts about them that ship."""
