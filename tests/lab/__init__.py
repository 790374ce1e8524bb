"""What measures KIMAs, and the tests of these tools."""
