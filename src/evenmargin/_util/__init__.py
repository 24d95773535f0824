"""Threads, files and progress."""
