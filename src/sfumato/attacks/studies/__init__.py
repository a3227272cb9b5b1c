"""The published studies of the recovery attack, repeated: the crowd, the taxis, the schemes."""
