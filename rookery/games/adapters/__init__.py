"""Games made elsewhere, behind the contract of `rookery.games.base`.

`pettingzoo.py` and `gymnasium.py` find a game by its path. What it speaks (dicts, lists,
turns) is put into one form by `in_turn.py`, `lists.py` and `copies.py`; `world.py` keeps
account of one copy, `seats.py` and `columns.py` of what agents see and do; and `game.py`
is the `Game`.
"""
