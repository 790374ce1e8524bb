"""Foreign documents are parsed and cut in worker processes, with limits of memory, time and output."""
