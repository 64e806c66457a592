"""What algorithms share: groups, Adam, losses, exploration."""
