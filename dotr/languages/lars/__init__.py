"""LARS: rules with windows over points of time."""
