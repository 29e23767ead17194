"""Where results come from, and whether that still holds: chain, why, audit, replay, verify-resume."""
