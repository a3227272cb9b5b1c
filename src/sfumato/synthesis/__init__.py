"""People who do not exist: synthetic records from noisy measurements and public facts."""
