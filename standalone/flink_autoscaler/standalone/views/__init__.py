"""What people and programs see of jobs, passes and backtests: documents for JSON, and what a table shows of them."""
