"""The one-machine Kubernetes API: an HTTP server that runs each pod as a local process.

It speaks the slice of the API that `kubernetes`, `kubernetes_asyncio`, `KubernetesPodOperator` and `kubectl` use.
Where it and Kubernetes differ, it is wrong; what it does not serve, it refuses by name instead of ignoring it.
"""
