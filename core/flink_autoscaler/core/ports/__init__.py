"""Every protocol that a plug-in or another root implements, and how a pass holds plug-ins."""
