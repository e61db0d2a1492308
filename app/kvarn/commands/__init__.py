"""One module per command of the `kvarn` program; each prints text or `--json`."""
