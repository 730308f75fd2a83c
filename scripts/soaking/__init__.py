"""What ``scripts/soak.py`` is made of: the gateway on a small disk, upstreams that fail, and callers."""
