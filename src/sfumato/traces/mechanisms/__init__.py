"""Mechanisms for whole traces: independent, in windows, predictive, Gaussian."""
