"""From a delivered message to a posted reply, or to a recorded reason for silence."""
