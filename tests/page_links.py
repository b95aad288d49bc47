"""The links of a page, as a browser resolves them."""

from html.parser import HTMLParser
from urllib.parse import urljoin


class Links(HTMLParser):
    """Reads a page as a browser does: its base, and where each link leads."""

    def __init__(self, page: bytes, url: str) -> None:
        super().__init__()
        self.base, self.hrefs, self.tags = url, list[str](), set[str]()
        self.feed(page.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        href = dict(attrs).get("href") or ""
        if tag == "base":
            self.base = urljoin(self.base, href)
        elif tag == "a":
            self.hrefs.append(href)

    def targets(self) -> list[str]:
        return [urljoin(self.base, href) for href in self.hrefs]
