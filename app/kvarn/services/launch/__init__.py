"""From a choice of settings to a running engine."""
