"""Statistics over arrays: arrays in, arrays out; nothing of ours is imported here."""
