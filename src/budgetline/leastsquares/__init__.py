"""Regularised least squares: normal equations, their factorisations, rules and coefficients."""
