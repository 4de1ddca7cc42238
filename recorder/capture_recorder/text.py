def printable(t, limit=None): return str(t)  # PLACEHOLDER
