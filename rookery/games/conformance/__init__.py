"""`rookery check`: does a game keep the contract?"""
