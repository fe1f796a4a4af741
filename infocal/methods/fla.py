"""FLA, the fact-law attention model [Luo2017]: a text that attends to the articles of the law.

Source: [Luo2017] Learning to Predict Charges for Criminal Cases with Legal Basis (EMNLP 2017).

Shapes: B texts, T positions, A articles, L positions in the longest article, S dimensions of a state,
K = `hidden_size`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from infocal import explainers, losses
from infocal.batch import Batch, Words
from infocal.config import Task, non_negative, one_of, positive
from infocal.errors import ConfigError, did_you_mean
from infocal.heads import of_head
from infocal.methods.classifier import Classifier, ClassifierTrainer, Reading
from infocal.methods.joint import JointConfig, refuse_pretrained
from infocal.nn.attention_reader import AttentionReader
from infocal.nn.encoders import Embedded
from infocal.nn.pieces import Pretrained
from infocal.nn.rationalizer import output_layer
from infocal.objective import Terms

_START = 0.1
"""Deviation of learnt article vectors before training: below the size of a state, which tanh bounds by 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FlaConfig(JointConfig):
    """Hyper-parameters of FLA; `pooling` has no effect, for the attention pools.

    Raises:
        ConfigError: if a value is of the wrong type or out of its range.
    """

    encoder: str = one_of("lstm", ("lstm", "rcnn", "cnn"))
    """Encoder of facts and articles: `lstm`, `rcnn` or `cnn`; that of [Luo2017] is a GRU."""

    explainer: str = one_of(explainers.ATTENTION, explainers.EXPLAINERS)
    """What ranks the tokens of a text: its `attention`, or what `infocal.nn.explaining` computes."""

    hidden_size: int = positive(75)
    """Hidden units of each direction of a recurrent encoder, and of the attention layers, >= 1."""

    articles: str = "articles"
    """Name of the target whose classes are the articles."""

    article_texts: str = ""
    """File with the text of each article, `{"264": "TEXT", ...}` as JSON; empty: their vectors are learnt."""

    lambda_article: float = non_negative(0.1)
    """Weight of the loss of the attention to articles, >= 0; 0 turns it off."""

    inner_size: int = positive(200)
    """Units of the first of two layers between attention and output, >= 1."""

    feature_size: int = positive(150)
    """Units of the second one, which the output layer reads, >= 1."""

    def weighted(self, task: Task) -> Task:
        """See `MethodConfig.weighted`; one of the targets must be the articles.

        Raises:
            ConfigError: as there, and if there is no target of the name `articles`.
        """
        found = JointConfig.weighted(self, task)
        names = [head.name for head in task.heads]
        if self.articles not in names:
            raise ConfigError(
                f"FLA attends to the classes of the target `{self.articles}`, but the targets are "
                f"{', '.join(f'`{name}`' for name in names)}",
                hint=did_you_mean(self.articles, names)
                or "name the target of the articles: `--set articles=TARGET`",
            )
        return found

    def class_texts(self) -> Mapping[str, str]:
        """See `MethodConfig.class_texts`."""
        return {self.articles: self.article_texts} if self.article_texts else {}

    def remarks(self) -> list[str]:
        """See `MethodConfig.remarks`."""
        if self.article_texts:
            return ["it reads the texts of the articles"]
        return [
            "the vectors of the articles are learnt, because no texts of the articles were "
            "given (`article_texts`)"
        ]


class ArticleTexts(nn.Module):
    """A vector of each article for each text, from the words of the article that the text asks for.

        u = W d + b,   alpha_l = softmax_l( u' tanh(V h_l + c) ),   v = sum_l alpha_l h_l

    with d the vector of the text and h_l the states of an article.

    Args:
        words: numbers of the words of each article, each at least one.
        state_size: S.
        size: K.
    """

    word_ids: Tensor
    is_word: Tensor

    def __init__(self, words: tuple[tuple[int, ...], ...], state_size: int, size: int) -> None:
        super().__init__()
        rows = [torch.tensor(row) for row in words]
        # not persistent: the task holds the words
        self.register_buffer("word_ids", nn.utils.rnn.pad_sequence(rows, batch_first=True), persistent=False)
        lengths = torch.tensor([len(row) for row in words])
        self.register_buffer(
            "is_word", torch.arange(max(map(len, words))) < lengths[:, None], persistent=False
        )
        self.query = nn.Linear(state_size, size)
        self.key = nn.Linear(state_size, size)

    def forward(self, text: Float[Tensor, "B S"], states: Float[Tensor, "A L S"]) -> Float[Tensor, "B A S"]:
        """The vector of each article for each text."""
        energy = torch.einsum("bk,alk->bal", self.query(text), torch.tanh(self.key(states)))
        share = energy.masked_fill(~self.is_word, -torch.inf).softmax(dim=2)
        return torch.einsum("bal,als->bas", share, states)


class ArticleAttention(nn.Module):
    """How much a text attends to each article, and what it gets from them.

        u = W d + b,   beta_a = softmax_a( u' tanh(V v_a + c) ),   sum_a beta_a v_a

    Args:
        state_size: S.
        size: K.
    """

    def __init__(self, state_size: int, size: int) -> None:
        super().__init__()
        self.query = nn.Linear(state_size, size)
        self.key = nn.Linear(state_size, size)

    def forward(
        self, text: Float[Tensor, "B S"], articles: Float[Tensor, "B A S"]
    ) -> tuple[Float[Tensor, "B S"], Float[Tensor, "B A"]]:
        """The weighted mean of the articles, and the logarithm of their weights."""
        energy = torch.einsum("bk,bak->ba", self.query(text), torch.tanh(self.key(articles)))
        log_share = energy.log_softmax(dim=1)
        return torch.einsum("ba,bas->bs", log_share.exp(), articles), log_share


class FlaModel(Classifier):
    """Encoder and attention for the text, attention to the articles, and two layers on both.

    Differs: [Luo2017] first takes the 20 articles that support vector machines find likely, and reads them
    with a recurrent layer in that order. Here a case has one article, and the text attends to all of them. A
    text is read as one sentence, and all targets are predicted from the last layer.

    Raises:
        ConfigError: if the articles are scores.
    """

    config: FlaConfig

    def __init__(self, config: FlaConfig, task: Task, embeddings: Float[Tensor, "V E"] | Pretrained) -> None:
        super().__init__(config, task, embeddings)
        refuse_pretrained("FLA", embeddings)
        self.article_target = [head.name for head in task.heads].index(config.articles)
        articles = task.heads[self.article_target]
        if articles.kind == "regression":
            raise ConfigError(f"FLA attends to classes, but the target `{config.articles}` is a score")
        self.reader = AttentionReader(config, self.new_encoder(), has_feature=False)
        size = self.reader.encoder.output_size
        if articles.texts:
            self.article_encoder = self.new_encoder()
            self.article_texts = ArticleTexts(articles.texts, size, config.hidden_size)
        else:
            self.article_vectors = nn.Parameter(_START * torch.randn(articles.num_classes, size))
        self.attention = ArticleAttention(size, config.hidden_size)
        self.inner = nn.Linear(2 * size, config.inner_size)
        self.last = nn.Linear(config.inner_size, config.feature_size)
        self.output = output_layer(config.feature_size, task)

    def article_states(self, text: Float[Tensor, "B S"]) -> Float[Tensor, "B A S"]:
        """The vector of each article for each text."""
        if not hasattr(self, "article_texts"):
            return self.article_vectors.expand(len(text), -1, -1)
        texts = self.article_texts
        embedded = self.embed(Words.of(texts.word_ids))
        states = self.article_encoder(embedded, texts.is_word.to(embedded.vectors.dtype))
        found: Tensor = texts(text, states)
        return found

    def read_articles(
        self, embedded: Embedded, gate: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]
    ) -> tuple[Reading, Float[Tensor, "B A"]]:
        """See `Classifier.read`; with the logarithm of the attention to each article."""
        text, weight = self.reader.attend(embedded, gate, is_token)
        law, log_share = self.attention(text, self.article_states(text))
        feature = torch.relu(self.inner(self.drop(torch.cat([text, law], dim=1))))
        feature = torch.relu(self.last(self.drop(feature)))
        log_attention = weight.clamp(min=torch.finfo(weight.dtype).tiny).log()
        return Reading(self.output(self.drop(feature)), log_attention.unsqueeze(1)), log_share

    def read(self, embedded: Embedded, gate: Float[Tensor, "B T"], is_token: Bool[Tensor, "B T"]) -> Reading:
        """See `Classifier.read`; the attention to tokens has one head."""
        return self.read_articles(embedded, gate, is_token)[0]


class FlaTrainer(ClassifierTrainer):
    """The losses of the targets, and of the attention to articles; by Adam."""

    optimizer_class = torch.optim.Adam
    model_class = FlaModel
    model: FlaModel

    def step_terms(self, batch: Batch) -> tuple[Terms, Tensor, Any]:
        """L_sp of the whole text, and `article`: -log beta of the case's article, the mean over texts."""
        model = self.model
        embedded = model.embed(batch.words)
        everything = batch.is_token.to(embedded.vectors.dtype)
        reading, log_share = model.read_articles(embedded, everything, batch.is_token)
        head = self.task.heads[model.article_target]
        wanted = of_head(batch.target, model.article_target, head)
        return (
            self.terms(batch, reading) | {"article": losses.prediction_loss(log_share, wanted, head)},
            everything,
            None,
        )
