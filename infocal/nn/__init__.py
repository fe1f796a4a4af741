"""The networks that methods share: encoders, selector, predictor, and masks drawn or ranked."""
