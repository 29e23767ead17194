"""Scripts of the user's own: `main(params, out)` and a config become a result directory."""
