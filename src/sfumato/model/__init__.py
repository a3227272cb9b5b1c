"""The nouns: frozen values that check themselves. They import nothing else of sfumato."""
