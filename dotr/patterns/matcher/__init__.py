"""Generated matchers: the candidates of a clause, the emitter of source text, and its
compilation."""
