"""What runs in the triggerer while a task is deferred."""
