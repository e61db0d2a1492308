"""Pure values and rules: no Qt, no threads, no files, no clock reads."""
