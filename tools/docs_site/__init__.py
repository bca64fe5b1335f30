"""``make docs``: the site made of ``docs/`` and of the Markdown files beside it."""
