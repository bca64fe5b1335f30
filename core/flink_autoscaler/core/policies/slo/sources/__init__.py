"""Several sources whose loads go different ways: what has arrived at each, and what that says of every vertex."""
