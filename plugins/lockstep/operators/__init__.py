"""The tasks that a DAG file names: each a few lines of story over the files beside this folder."""
