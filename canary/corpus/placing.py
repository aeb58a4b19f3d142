"""Canaries into one corpus: which records can take them, and the corpus with them."""

from __future__ import annotations

from typing import Any

from canary.corpus.canaries import CanarySet
from canary.corpus.columns import shape_for
from canary.corpus.corpora import Corpus, Edits
from canary.corpus.occurrences import find_canaries
from canary.corpus.places import Between, Guests, Splicer, hostable
from canary.errors import CorpusError, InputError


class Placing:
    """Puts the injected canaries of a set into a corpus; spliced if there are separators.

    A CorpusError or InputError if the corpus cannot hold them.
    """

    def __init__(
        self, corpus: Corpus, canaries: CanarySet, separators: tuple[str, str] | None
    ) -> None:
        self._corpus, self._canaries = corpus, canaries
        corpus.shape = shape_for(corpus.shape, canaries.role, corpus.source)
        if canaries.role and separators is not None:
            raise InputError(
                "canaries of a role are chats of their own: what is before a spliced one depends "
                "on its host",
                cure="inject records (--mode record), or generate the set without --role",
            )
        self.splicer = None if separators is None else Splicer(canaries, separators, corpus.shape)
        self._own = [canaries.text(canary) for canary in canaries.injected]
        texts = self._own if self.splicer is None else self.splicer.texts
        corpus.check_texts(texts)
        self._special = self.splicer is not None and corpus.needs_quotes(texts)

    def offer(self, pool: Between) -> None:
        """Read the corpus once, and offer every record that can take a copy to `pool`.

        A CorpusError if a record is damaged, or holds a canary already.
        """
        corpus = self._corpus
        find = find_canaries(self._canaries, self._canaries)
        for position, number, slots in corpus.iterate():
            for slot in slots:
                for _, _, name in find(slot.text):  # copies could not be counted then
                    raise CorpusError(
                        f"already holds the text of {name}",
                        cure="strip the corpus first, or draw canaries with another seed",
                        where=corpus.place(number),
                    )
            if self.splicer is None or hostable(slots, corpus.shape, special=self._special):
                pool.offer(position)

    def put_in(self, guests: Guests, out: Any = None) -> Any:
        """The corpus with the guests; written to `out` if it is a file."""
        if self.splicer is not None:
            self.splicer.guests = guests
            edits = Edits(decide=self.splicer, at=guests)
        else:
            edits = Edits({at: [self._own[who] for who, _ in m] for at, m in guests.items()})
        return self._corpus.rewrite(edits, out)
