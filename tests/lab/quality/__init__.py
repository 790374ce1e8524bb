"""Judgement measured on public data: when to speak, what to find, what to say.

A part is a module of this package. It names the public repositories that its data is built from and has `build`, which
writes the data, and `measure`, which returns figures; `draw` is optional. The data of strangers is built where it is
needed and never committed.
"""

import os

# As the command line does, before NumPy is loaded.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
