"""The viewer of capture-replay. Its place in the structure; the viewer itself is not part of this release."""
