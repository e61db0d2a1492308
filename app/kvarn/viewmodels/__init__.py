"""QObjects between services and views; no widgets."""
