"""The parts of `benchmarks.fuzz`. To import one part imports no other reader, and with it torch."""
