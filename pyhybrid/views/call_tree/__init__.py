"""The sampled call tree as people read it."""
