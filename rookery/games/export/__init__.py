"""Rookery's games in the forms of PettingZoo and Gymnasium; the reverse of `adapters`.

`seats.py` plays a game in which some seats are played from outside, `spaces.py` describes
observations and actions as Gymnasium spaces, and `pictures.py` shows worlds.
`pettingzoo.py` has all seats as a `ParallelEnv`, `gymnasium.py` one seat as an `Env`, and
`vector.py` one seat of many worlds as a `VectorEnv`.
"""
