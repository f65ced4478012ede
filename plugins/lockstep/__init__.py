"""Lockstep trains TensorFlow models on several machines, on a schedule, from Airflow."""
