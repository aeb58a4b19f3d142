"""A piece of prose with many words that have synonyms."""

PROSE = (
    "People often choose a quick answer, although several methods may allow a different result. "
    "The main reason is simply that a difficult problem always begins with an important idea, and "
    "many errors happen while it is modified. Usually the whole task is finally complete, and "
    "there is enough help to keep the total number of big mistakes small. Therefore the company "
    "will probably improve the previous version quickly."
)
