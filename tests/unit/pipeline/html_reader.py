"""Reads a page back: whether its tags match, and what it says where."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "input", "link", "hr", "img", "wbr", "col"}


@dataclass
class Node:
    """An element: its attributes and what is in it."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    content: list["Node | str"] = field(default_factory=list)

    def walk(self) -> Iterator["Node"]:
        yield self
        for part in self.content:
            if isinstance(part, Node):
                yield from part.walk()

    def find(self, tag: str, class_name: str | None = None) -> list["Node"]:
        return [n for n in self.walk() if n.tag == tag and (class_name is None or class_name in n.classes)]

    @property
    def classes(self) -> set[str]:
        return set(self.attributes.get("class", "").split())

    @property
    def text(self) -> str:
        return "".join(part if isinstance(part, str) else part.text for part in self.content)

    @property
    def words(self) -> str:
        """The text with single spaces."""
        return " ".join(self.text.split())


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.root = Node("document")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attributes})
        self.open[-1].content.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.open[-1].content.append(Node(tag, {name: value or "" for name, value in attributes}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}> at {self.getpos()}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].content.append(data)


def read(page: str) -> Node:
    """The page as a tree; fails where a tag is left open, closed twice or crossed, or an id is used twice."""
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert reader.open == [reader.root], f"left open: {[node.tag for node in reader.open[1:]]}"
    ids = [node.attributes["id"] for node in reader.root.walk() if "id" in node.attributes]
    assert len(ids) == len(set(ids)), f"ids used twice: {sorted(i for i in set(ids) if ids.count(i) > 1)}"
    return reader.root
