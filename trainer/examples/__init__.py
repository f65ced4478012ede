"""Jobs to try the trainer with, and to copy from."""
