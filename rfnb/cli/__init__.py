"""The command `rfnb`: the course, pronunciations, pages of recordings, and what is missing here."""
