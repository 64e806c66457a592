"""How agents act and learn: policies, learners, networks. No processes, no files."""
