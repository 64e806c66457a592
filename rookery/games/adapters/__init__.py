"""Foreign games (PettingZoo, Gymnasium) behind the contract of `rookery.games.base`.

`pettingzoo.py` and `gymnasium.py` find a game by its path, and `settings.py` reads its
keyword arguments. `parallel.py` brings every kind of game into one form, `world.py` plays
one copy of it, `spaces.py`, `observations.py` and `encoding.py` translate spaces and
observations, and `game.py` is the `Game`.
"""
