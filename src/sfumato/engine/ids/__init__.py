"""Exact tables from user and place ids to dense codes."""
