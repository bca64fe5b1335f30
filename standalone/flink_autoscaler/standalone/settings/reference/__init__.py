"""Writes the sample configuration and the pages of reference from the declarations.

Run ``python -m flink_autoscaler.standalone.settings.reference --write`` in the root of the source tree.
"""

from flink_autoscaler.standalone.settings.reference.options_page import PAGE, page
from flink_autoscaler.standalone.settings.reference.sample_file import SAMPLE, sample
from flink_autoscaler.standalone.settings.reference.words_page import WORDS_PAGE, words_page

__all__ = ["PAGE", "SAMPLE", "WORDS_PAGE", "page", "sample", "words_page"]
