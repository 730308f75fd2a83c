"""A profile by which a test tells what was scored, where requests offer tools."""

from importlib.resources import files
from pathlib import Path

__all__ = ["keywords_profile"]


def keywords_profile(folder: Path) -> str:
    """Write profile ``default`` with keywords that count beside tools too; return the name of its file."""
    text = (files("pointsman.tiers") / "profiles" / "default.toml").read_text("utf-8")
    (folder / "keywords.toml").write_text(
        text.replace("length_alone_with_tools = true", "length_alone_with_tools = false"), "utf-8"
    )
    return "keywords.toml"
