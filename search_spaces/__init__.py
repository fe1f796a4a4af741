"""What may vary in a search, over what range and why; and what a dataset's best model is."""
