"""Language models whose perplexities are compared: one vocabulary, and one definition for all of them.

`infocal.metrics.perplexity` has the definition. Every model here gives log p of each token from the second
of a text on, given the tokens before it; p is a distribution over the known words, without padding and the
unknown word.
"""
