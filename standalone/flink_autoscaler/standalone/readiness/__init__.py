"""What a cluster and its jobs need before they can be scaled: read from outside, told in words with the line to add."""
