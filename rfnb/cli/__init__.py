"""The command `rfnb`: the course, pronunciations, pages of recordings, and a report of what is missing."""
