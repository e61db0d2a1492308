"""The cache-type lab: what is compared, in which order, and what the figures say. Pure values."""
