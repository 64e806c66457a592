"""What several algorithms share: stacked groups, Adam, losses, exploration."""
