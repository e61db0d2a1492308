"""Small controls used by several pages. Every text in them is plain: a model may be called `<b>`."""
