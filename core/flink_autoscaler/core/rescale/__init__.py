"""What became of a rescale: followed, proven, undone."""
