"""The sessions of a worker: found by id, changed under their own lock, bounded in number.

A session outlives its streams, since a `Cancel` on another connection must reach it, also before it is open.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Final

from .session import Session

MAX_SESSIONS: Final = 1024


class CapacityExhausted(Exception):
    """Every place is taken by a session that has a stream."""


class _Place:
    """A session, its lock, and how many streams have it open."""

    def __init__(self, session_id: str) -> None:
        self.session = Session(session_id)
        self.lock = threading.Lock()
        self.streams = 0


class Store:
    """All sessions. Two threads never change one session at a time."""

    def __init__(self, capacity: int = MAX_SESSIONS) -> None:
        self.capacity = capacity
        self._places: dict[str, _Place] = {}  # in the order of their last opening
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def locked(self, session_id: str) -> Iterator[Session]:
        """The session, made if there is none, for as long as the block holds it. Raises CapacityExhausted."""
        place = self._place(session_id)
        with place.lock:
            yield place.session

    def peek(self, session_id: str) -> Session:
        """The session for reading what does not change under a stream: its id and its limits."""
        return self._place(session_id).session

    def attach(self, session_id: str) -> None:
        """A stream has the session open: it is not thrown out."""
        with self._lock:
            self._places[session_id].streams += 1

    def detach(self, session_id: str) -> None:
        """A stream that had it open has ended."""
        with self._lock:
            place = self._places.get(session_id)
            if place is not None and place.streams:  # 0: released meanwhile, and begun anew
                place.streams -= 1

    def drop(self, session_id: str) -> bool:
        """Forget the session; whether it was open."""
        with self._lock:
            place = self._places.pop(session_id, None)
        return place is not None and place.session.opened

    @property
    def active(self) -> int:
        """How many sessions are open and not cancelled."""
        with self._lock:
            return sum(place.session.active for place in self._places.values())

    def _place(self, session_id: str) -> _Place:
        with self._lock:
            place = self._places.get(session_id)
            if place is None:
                self._make_room()
                place = self._places[session_id] = _Place(session_id)
            return place

    def _make_room(self) -> None:
        if len(self._places) < self.capacity:
            return
        idle = next((name for name, place in self._places.items() if not place.streams), None)
        if idle is None:
            raise CapacityExhausted
        del self._places[idle]
