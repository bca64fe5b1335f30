"""``make pictures``: the pictures of the README, from a real run of the demo."""
