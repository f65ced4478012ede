"""The pod side of Lockstep: what one worker of a gang runs (`python -m trainer`).

It shares a contract with the Airflow side (environment in, run directory, termination message and exit code out) and
no code, so that any image may take its place.
"""
