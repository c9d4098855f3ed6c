"""Networks in RETURNN's dict notation: {layer name: {"class": ..., "from": ..., options}}, run with rfnb."""
