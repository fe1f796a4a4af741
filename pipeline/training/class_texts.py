"""The texts of classes that a method reads, as part of what it predicts."""

import dataclasses
from pathlib import Path

from feature_store.class_texts import class_words
from feature_store.store import Features
from infocal.config import MethodConfig, Task


def told(task: Task, config: MethodConfig, features: Features) -> Task:
    """The task with the words of each class of those targets of which the method reads texts.

    Raises:
        UserError: as `feature_store.class_texts.class_words`.
    """
    words = {name: class_words(features, name, Path(file)) for name, file in config.class_texts().items()}
    if not words:
        return task
    first, *sides = (dataclasses.replace(head, texts=words.get(head.name, head.texts)) for head in task.heads)
    return dataclasses.replace(first, sides=tuple(sides))
