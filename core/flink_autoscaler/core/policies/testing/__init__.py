"""The tests that every policy has to pass, and jobs for them."""
