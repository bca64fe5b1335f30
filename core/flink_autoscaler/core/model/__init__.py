"""Values: what the stages of a pass hand to each other, and the arithmetic and notation of single values."""
