"""One machine's stand-ins for what Lockstep needs: a Kubernetes API, Cloud Storage, MLflow and Airflow's processes.

For newcomers and for tests. Nothing in here is needed or imported in production.
"""
