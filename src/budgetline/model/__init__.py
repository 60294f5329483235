"""From statistics to a fitted anytime model."""
