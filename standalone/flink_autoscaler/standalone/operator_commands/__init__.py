"""Orders as people and commands see them: the book of a database, who is meant, and what is in force."""
