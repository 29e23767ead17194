"""Many results side by side: found, listed, compared, cloned, drawn. Executes no script."""
