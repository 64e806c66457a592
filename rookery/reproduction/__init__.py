"""Named results from the literature and these docs, and how they are reached again."""
