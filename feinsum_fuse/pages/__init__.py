"""Pages for people: a report as one file, and an archive in a browser."""
