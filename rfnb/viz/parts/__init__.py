"""Components that views share: a graph and a matrix."""
