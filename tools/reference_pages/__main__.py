"""``python -m reference_pages``: tell whether the documents are right, or write them."""

from __future__ import annotations

import sys
from pathlib import Path

from reference_pages import PAGE, SAMPLE, UPGRADE_PAGE, WORDS_PAGE, page, sample, upgrade_page, words_page


def main(arguments: list[str]) -> int:
    """Write the documents below the working directory, or tell whether they are as they should be."""
    is_writing = arguments == ["--write"]
    documents = ((SAMPLE, sample()), (PAGE, page()), (WORDS_PAGE, words_page()), (UPGRADE_PAGE, upgrade_page()))
    wrong = [path for path, text in documents if not _settle(path, text, is_writing)]
    for path in wrong:
        sys.stderr.write(f"{path} differs from the declarations; run with --write\n")
    return 1 if wrong else 0


def _settle(path: Path, text: str, is_writing: bool) -> bool:
    if is_writing:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return path.is_file() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
