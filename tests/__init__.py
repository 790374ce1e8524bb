"""The tests. NumPy is loaded below."""

import os

# As the command line does before NumPy is loaded: threads that wait by spinning slow all other tests.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
