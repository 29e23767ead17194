"""From a config to objects to the loop: offline and online training, predict, dry run. Knows no command line."""
