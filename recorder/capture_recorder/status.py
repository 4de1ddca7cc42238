def status_name(n): return str(n)  # PLACEHOLDER
