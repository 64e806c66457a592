"""What crosses process borders: rows, states, words; nothing about learning."""
