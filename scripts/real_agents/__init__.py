"""Real agents, and the strict scripted upstreams that they work with: see ``scripts/try_agents.py``."""
