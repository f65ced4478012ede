"""What happens beside training, one file each: backup, checkpoint, export, progress, metrics, watchdog."""
