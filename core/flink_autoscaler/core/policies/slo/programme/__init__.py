"""What every size would cost over the next hours, and the cheapest of them."""
