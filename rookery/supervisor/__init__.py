"""Starting, watching and restarting the processes of a run. Knows nothing about RL."""
