"""From evaluated metrics and policies to a decision."""
