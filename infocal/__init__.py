"""InfoCal: a selector, a predictor and a guider that calibrate one another; torch and numpy only."""
