from pipeline.training import settings


def test_word_vectors_are_those_of_the_preset_unless_named():
    assert settings.word_vectors("beer", None) == {}
    assert settings.word_vectors("beer", "random") == {"embedding": "random"}
    assert settings.word_vectors("cail-small", None) == {"embedding": "word2vec", "embedding_size": 100}
    assert settings.word_vectors("cail-big", "v.txt") == {"embedding": "v.txt", "embedding_size": 100}
