"""Fits of order-effect families to counts, of one survey, of many people, and of simulated surveys."""
