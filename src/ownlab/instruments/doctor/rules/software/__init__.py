"""Rules on software: builds, libraries, interpreters, toolkits, and the words of programs."""
