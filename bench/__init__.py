"""`make bench-gang`: what it costs to watch N pods, Lockstep's way and in the two ways that Airflow brings."""
