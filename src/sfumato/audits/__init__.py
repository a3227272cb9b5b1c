"""Neighbouring data through the whole pipeline: does the guarantee hold?"""
