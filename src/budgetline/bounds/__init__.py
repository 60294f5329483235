"""Best sets of quadratic problems, upper bounds on them, and certificates with their verifier; it knows no models."""
