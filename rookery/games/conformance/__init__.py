"""`rookery check`: plays a game in many ways and compares the results bit for bit."""
