"""The form of a view that a page gets: a spec that is small enough, and the page itself."""
