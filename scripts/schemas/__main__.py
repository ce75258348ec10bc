"""Write docs/schemas/."""

from __future__ import annotations

from scripts.schemas import FOLDER, files

FOLDER.mkdir(exist_ok=True)
for path, content in files().items():
    path.write_text(content, encoding="utf-8")
