"""What a frozen model says of rows: predictions as files, and how good they are. Runs no loop."""
