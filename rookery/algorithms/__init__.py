"""What a learner does with experience: stacked arithmetic, no processes, no files."""
