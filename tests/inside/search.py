"""Internal names of `toolbus.search` that tests use."""

from toolbus.search.encoders.encoder import EncodingFailed as EncodingFailed
from toolbus.search.encoders.encoder import FunctionEncoder as FunctionEncoder
from toolbus.search.encoders.encoder import minilm_encoder as minilm_encoder
from toolbus.search.encoding import Encoding as Encoding
from toolbus.search.finder import Finder as Finder
from toolbus.search.index import Index as Index
from toolbus.search.words import key as key
from toolbus.search.words import words as words
