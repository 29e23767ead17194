"""Many results side by side: found, compared, repeated, queued. Writes only through `results`."""
