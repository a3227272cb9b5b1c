"""The laboratory: what the documents describe and a publisher does not run.

Printed forms, studies, schemes to compare with, methods that protect by rules. It comes in the same
wheel as `sfumato` and reaches it as any other distribution would (`sfumato_lab.offers`).
"""
