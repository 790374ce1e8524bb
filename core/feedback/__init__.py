"""What people say about answers: thumbs, reasons, and the answer that is made once more."""
