"""What the running engine does, second by second."""
