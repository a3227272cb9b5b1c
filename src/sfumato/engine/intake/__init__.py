"""Rows as they come to rows of a user together: exact ids to codes, drops counted, cells packed."""
