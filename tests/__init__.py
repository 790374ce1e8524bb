"""The tests. NumPy is loaded below."""

import os
import sys

# As the command line does before NumPy is loaded: threads that wait by spinning slow all other tests.
# A worker that loads a function from here is no test: it has the environment that it was given.
if "pytest" in sys.modules:
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
