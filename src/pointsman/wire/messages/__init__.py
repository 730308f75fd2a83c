"""The Messages format."""
