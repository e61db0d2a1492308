"""The cache-type lab at work: engine programs run one after another, their figures kept as they come."""
