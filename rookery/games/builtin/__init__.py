"""The games that come with Rookery, one file each."""
