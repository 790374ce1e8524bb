"""What the project promises, measured."""

import os

# As the command line does, before NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
