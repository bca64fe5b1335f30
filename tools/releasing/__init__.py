"""Parts of a release: wheel, source archive, archive for executors, Debian package, checksums, notes.

``make release`` and ``make deb`` call it. Each is installed into an empty environment before it counts.
"""
