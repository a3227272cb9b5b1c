"""Mechanisms as the papers print them; what each does not guarantee is said in its docstring."""
