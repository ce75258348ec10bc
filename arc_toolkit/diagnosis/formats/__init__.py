"""The report as text, JSON, CSV, Markdown and one HTML page."""
