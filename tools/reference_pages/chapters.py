"""A chapter of the reference of options: what belongs together, and an example of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OptionChapter:
    """Options that are looked up together.

    Attributes:
        title: Its heading.
        text: What they are for, and the pages that tell more; Markdown.
        example: YAML that works as it is.
        prefixes: Beginnings of keys; of all chapters the one with the longest that fits has an option.
    """

    title: str
    text: str
    example: str
    prefixes: tuple[str, ...]


def chapter_of(key: str, chapters: tuple[OptionChapter, ...]) -> OptionChapter:
    """Return the chapter that has an option.

    Raises:
        LookupError: None has; its key belongs into one.
    """
    fitting = [(len(p), each) for each in chapters for p in each.prefixes if key.startswith(p)]
    if not fitting:
        raise LookupError(f"no chapter of the reference has {key}")
    return max(fitting, key=lambda pair: pair[0])[1]
