"""Many results side by side: find, list, filter, compare, clone, draw, checksum. Executes no script."""
