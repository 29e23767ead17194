"""Config → objects → loop: offline, online, predict. Knows every room above, and no command line."""
