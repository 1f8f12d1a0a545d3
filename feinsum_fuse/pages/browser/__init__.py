"""An archive in a browser: read-only, on this machine alone unless asked otherwise."""
