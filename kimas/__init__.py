"""KIMAs as an installed package: in a wheel, `bots`, `core` and `knowledge` are below this name."""
