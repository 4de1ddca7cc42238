"""What the viewer shows and does, without a screen: plain state and pure functions. Textual is not known here."""
