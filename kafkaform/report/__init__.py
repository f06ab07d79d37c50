"""Plans as text: pure functions from data to terminal text and Markdown; nothing here prints."""
