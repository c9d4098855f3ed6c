"""The form of a view for a page: a spec that is small enough, and the page itself."""
