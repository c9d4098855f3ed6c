"""Models made with rfnb, and how they were trained."""
