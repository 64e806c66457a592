"""Starting, watching and restarting the processes of a run; nothing about learning."""
