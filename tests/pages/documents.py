"""Pages as a reader's program sees them, by the parser of the standard library."""

from __future__ import annotations

from html.parser import HTMLParser


class Elements(HTMLParser):
    """Every element with its attributes, the texts of scripts and styles, and what a person reads."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str]]] = []
        self.inside: dict[str, list[str]] = {"script": [], "style": [], "title": []}
        self.texts: list[str] = []
        self._open = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, {name: value or "" for name, value in attrs}))
        self._open = tag
        if tag in self.inside:
            self.inside[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open in self.inside:
            self.inside[self._open][-1] += data
        else:
            self.texts.append(data)

    @property
    def text(self) -> str:
        """What a person reads, spaces joined."""
        return " ".join(" ".join(self.texts).split())

    def of(self, tag: str) -> list[dict[str, str]]:
        """The attributes of all elements of a kind."""
        return [attributes for name, attributes in self.found if name == tag]

    def handlers(self) -> list[str]:
        """Attributes that would run something, and addresses that are scripts."""
        every = [(name, value) for _, attributes in self.found for name, value in attributes.items()]
        led = ("href", "src", "action", "formaction", "xlink:href")
        scripts = [pair for pair in every if pair[0] in led and pair[1].strip().lower().startswith("javascript:")]
        return [f"{name}={value}" for name, value in [*scripts, *(pair for pair in every if pair[0].startswith("on"))]]
