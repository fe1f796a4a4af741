"""Words as pieces: what an encoder of subwords reads, in windows, with the word that each piece belongs to.

Shapes: B texts, T positions, U distinct words of a batch, V words of the vocabulary, N pieces of all of them;
R windows of all texts of a batch, C places in the longest of them.
"""

import dataclasses
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from infocal.batch import Words
from infocal.config import MethodConfig, WordState
from infocal.errors import ConfigError
from infocal.splitting import UNKNOWN, FurtherWords, Splitter, splitter_of

EXTRA = "infocal-pipeline[transformers]"
"""What `pip install` has to be given for pretrained encoders."""


@dataclass(frozen=True, slots=True)
class Pretrained:
    """A pretrained encoder, given to a model in the place of word vectors.

    Every word is split into pieces by itself. So a word has the same pieces wherever it stands. Where the
    tokenizer is not kept, a word that the vocabulary lacks is read as the tokenizer's unknown piece.
    """

    architecture: dict[str, Any]
    """The configuration that `transformers` keeps of a model, as JSON."""
    prefix: list[int]
    """Pieces that the tokenizer puts before each text, such as `[CLS]`."""
    suffix: list[int]
    """Pieces that it puts behind each text, such as `[SEP]`."""
    piece_ids: Int[Tensor, " N"]
    """The pieces of all words, one word after the other; the padding, word 0, has none."""
    first_piece: Int[Tensor, " V1"]
    """Where the pieces of each word begin in `piece_ids`, then N."""
    weights: dict[str, Tensor] | None = None
    """The encoder's weights; None: it starts with fresh ones, or they are loaded with the model's."""
    tokenizer: str = ""
    """JSON of the tokenizer, for words that the vocabulary lacks; empty in models of before it was kept."""

    @property
    def num_words(self) -> int:
        """V."""
        return len(self.first_piece) - 1

    @property
    def splitter(self) -> Splitter | None:
        """What splits words that the vocabulary lacks; None where the tokenizer is not kept."""
        if not self.tokenizer:
            return None
        unknown = int(self.piece_ids[self.first_piece[UNKNOWN]])
        return splitter_of(self.tokenizer, unknown, self.num_words)

    def __deepcopy__(self, memo: dict[int, Any]) -> "Pretrained":
        """Itself: nothing in it changes, and its weights are large."""
        return self

    def without_weights(self) -> "Pretrained":
        """The same, as a model keeps it that has made its encoders."""
        return dataclasses.replace(self, weights=None)


@dataclass(frozen=True, slots=True)
class Layout:
    """The texts of a batch as windows of pieces; what depends on no weight of the encoder."""

    ids: Int[Tensor, "R C"]
    """Piece at each place."""
    word: Int[Tensor, "R C"]
    """Its word, as row * T + position; B T at the marks around a text, B T + 1 at padding."""
    share: Float[Tensor, "R C"]
    """Share of the piece's state in that of its word; 0 at marks and padding."""

    def repeated(self, num: int, num_slots: int) -> "Layout":
        """The windows of all texts, then of all of them again, `num` times in all.

        Args:
            num: number of copies.
            num_slots: B T of these texts.
        """
        copy = torch.arange(num, device=self.word.device).repeat_interleave(len(self.word)).unsqueeze(1)
        word = self.word.repeat(num, 1)
        moved = torch.where(word < num_slots, copy * num_slots, (num - 1) * num_slots)
        return Layout(self.ids.repeat(num, 1), word + moved, self.share.repeat(num, 1))

    def text(self, row: int, length: int, num_texts: int, width: int) -> "Layout":
        """The windows of one text, whose padding is left out.

        Args:
            row: of the text.
            length: number of its tokens.
            num_texts: B of these texts.
            width: T of these texts.
        """
        num_slots = num_texts * width
        last = self.word.masked_fill(self.word >= num_slots, -1).amax(dim=1)
        own = last // width == row
        word = self.word[own]
        word = torch.where(word < num_slots, word - row * width, word - num_slots + length)
        return Layout(self.ids[own], word, self.share[own])


def longest_window(architecture: dict[str, Any]) -> int:
    """Pieces that a model of this architecture reads at once, marks included.

    Raises:
        ConfigError: if the architecture does not say.
    """
    found = architecture.get("max_position_embeddings")
    if not isinstance(found, int) or found < 1:
        raise ConfigError(
            "the pretrained encoder does not say how many pieces it reads at once: expected a whole number "
            f"above 0 as `max_position_embeddings`, but got {found}"
        )
    # RoBERTa and its kin count positions from behind the number of the padding on
    is_shifted = "roberta" in str(architecture.get("model_type")) or architecture.get("model_type") in (
        "camembert",
        "longformer",
    )
    return found - int(architecture.get("pad_token_id") or 0) - 1 if is_shifted else found


def _starts(counts: Int[Tensor, " K"]) -> Int[Tensor, " K"]:
    """Sum of the counts before each one."""
    return counts.cumsum(0) - counts


class Lexicon(nn.Module):
    """The pieces of every word, and how texts are laid out in windows of them.

    A text of more pieces than a window holds is read in windows that overlap; the states of a piece that
    stands in several windows are averaged. Nothing is cut off.

    Args:
        pretrained: whose pieces.
        config: `word_state`, `window_size` and `window_stride` count.

    Raises:
        ConfigError: if the windows are too small or too large, or leave gaps.
    """

    piece_ids: Tensor
    first_piece: Tensor

    def __init__(self, pretrained: Pretrained, config: MethodConfig) -> None:
        super().__init__()
        longest = longest_window(pretrained.architecture)
        self.register_buffer("piece_ids", pretrained.piece_ids)
        self.register_buffer("first_piece", pretrained.first_piece)
        self.prefix, self.suffix = pretrained.prefix, pretrained.suffix
        marks = len(self.prefix) + len(self.suffix)
        size = config.window_size or longest
        if not marks < size <= longest:
            raise ConfigError(
                f"`window_size` must be above {marks} and at most {longest} for this encoder, but got {size}"
            )
        self.room = size - marks
        """Pieces of a text in a window."""
        self.stride = config.window_stride or max(1, self.room // 2)
        if self.stride > self.room:
            raise ConfigError(
                f"`window_stride` must be at most {self.room} (a window has {size} pieces, {marks} of them "
                f"special tokens), but got {self.stride}"
            )
        self.word_state: WordState = config.word_state

    def forward(self, words: Words) -> Layout:
        """The texts of a batch in windows."""
        num_texts, length = words.index.shape
        piece_ids, first_piece = self._with(words.further)
        count = (first_piece[words.ids + 1] - first_piece[words.ids])[words.index]  # B T
        slot = torch.repeat_interleave(
            torch.arange(count.numel(), device=count.device), count.flatten()
        )  # N', the word of each piece of the batch
        within = torch.arange(len(slot), device=slot.device) - _starts(count.flatten())[slot]
        word = words.ids[words.index.flatten()[slot]]
        piece = piece_ids[first_piece[word] + within]
        sizes, text = count.sum(dim=1), slot // length
        place = torch.arange(len(slot), device=slot.device) - _starts(sizes)[text]  # in the text
        windows = 1 + (sizes - self.room).clamp(min=0).add(self.stride - 1) // self.stride  # of each text
        kept = torch.ones_like(slot, dtype=torch.bool)
        if self.word_state == "first":
            kept = within == 0
        found = []
        for back in range(-(-self.room // self.stride)):
            window = place // self.stride - back
            column = place - window * self.stride
            stands = (window >= 0) & (window < windows[text]) & (column < self.room)
            row = _starts(windows)[text] + window
            found.append(torch.stack([row, column, piece, slot, kept.long()])[:, stands])
        return self._filled(torch.cat(found, dim=1), int(windows.sum()), num_texts * length)

    def _with(self, further: FurtherWords | None) -> tuple[Tensor, Tensor]:
        """The pieces of the vocabulary's words, and of those behind."""
        if further is None:
            return self.piece_ids, self.first_piece
        behind = further.first_piece[1:] + len(self.piece_ids)
        return torch.cat([self.piece_ids, further.piece_ids]), torch.cat([self.first_piece, behind])

    def _filled(self, placed: Int[Tensor, "5 M"], num_windows: int, num_slots: int) -> Layout:
        """Windows with their pieces, marks and padding.

        Args:
            placed: window, place in it, piece, word, and whether the word takes its state from the piece.
            num_windows: R.
            num_slots: B T.
        """
        row, column, piece, slot, kept = placed
        device, before = row.device, len(self.prefix)
        held = torch.bincount(row, minlength=num_windows)  # pieces in each window
        width = int(held.max()) + before + len(self.suffix)
        ids = torch.zeros(num_windows, width, dtype=torch.long, device=device)
        word = torch.full_like(ids, num_slots + 1)
        share = torch.zeros(num_windows, width, device=device)
        appearances = torch.bincount(slot, weights=kept.double(), minlength=num_slots)
        ids[row, column + before] = piece
        word[row, column + before] = slot
        share[row, column + before] = (kept / appearances[slot]).float()
        every = torch.arange(num_windows, device=device)
        for place, mark in enumerate(self.prefix):
            ids[:, place], word[:, place] = mark, num_slots
        for place, mark in enumerate(self.suffix):
            ids[every, held + before + place] = mark
            word[every, held + before + place] = num_slots
        return Layout(ids, word, share)
