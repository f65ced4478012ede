"""One file for each: `Contender` is the class to look for."""
