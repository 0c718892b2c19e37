"""Bytes: files, memory, locks, blobs, prompt history. Synchronous."""
