"""Writes the sample configuration and the pages of reference from the declarations.

Run ``PYTHONPATH=tools python -m reference_pages --write`` in the root of the source tree.
"""

from reference_pages.options_page import PAGE, page
from reference_pages.sample_file import SAMPLE, sample
from reference_pages.upgrade_page import UPGRADE_PAGE, upgrade_page
from reference_pages.words_page import WORDS_PAGE, words_page

__all__ = ["PAGE", "SAMPLE", "UPGRADE_PAGE", "WORDS_PAGE", "page", "sample", "upgrade_page", "words_page"]
