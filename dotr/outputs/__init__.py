"""Outputs: from firings to graphs and text.

`compile_template` compiles a template to a function from values to triples; `match_digest` is the
source of fresh names; `compile_writer` serializes firings as an output stream, which is an input
stream of the same format.
"""

from dotr.outputs.names import digest_of as digest_of
from dotr.outputs.names import match_digest as match_digest
from dotr.outputs.names import match_text as match_text
from dotr.outputs.templates import CompiledTemplate as CompiledTemplate
from dotr.outputs.templates import compile_template as compile_template
from dotr.outputs.writing import StreamFormat as StreamFormat
from dotr.outputs.writing import Writer as Writer
from dotr.outputs.writing import compile_writer as compile_writer
from dotr.outputs.writing import ntriples as ntriples
