"""Metadata that is computed when a distribution is built: the README of an index, and the addresses."""

import sys
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface


class CustomMetadataHook(MetadataHookInterface):
    """Reads ``repository`` of ``[tool.hatch.metadata.hooks.custom]``."""

    def update(self, metadata: dict) -> None:
        """Set the description, and the addresses where there is a repository."""
        root = Path(self.root)
        sys.path.insert(0, str(root / "scripts"))
        from index_readme import for_index

        repository = self.config.get("repository", "").rstrip("/")
        text = for_index(
            (root / "README.md").read_text("utf-8"), f"{repository}/blob/main" if repository else ""
        )
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = {}
        if repository:
            metadata["urls"] = {
                "Source": repository,
                "Documentation": f"{repository}/blob/main/docs/README.md",
                "Changelog": f"{repository}/blob/main/CHANGELOG.md",
                "Issues": f"{repository}/issues",
            }
