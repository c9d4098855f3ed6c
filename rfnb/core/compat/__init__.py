"""Names that a Tensor and a Dim have for older programs, and hints for names that they lack. Nothing else in the package uses them."""
