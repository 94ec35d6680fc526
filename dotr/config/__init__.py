"""Configuration of a pipeline: YAML, validated by a schema, with the span of every error.

`read_config` parses a file and the `--set` options to a `Config`, or raises all problems as
diagnostics. Relative paths are relative to the configuration file, those of `--set` to the working
directory.
"""

from dotr.config.files import ConfigFiles as ConfigFiles
from dotr.config.files import glob_files as glob_files
from dotr.config.files import matching_files as matching_files
from dotr.config.files import read_document as read_document
from dotr.config.reading import Config as Config
from dotr.config.reading import read_config as read_config
from dotr.config.section import Section as Section
from dotr.config.sections import InputSection as InputSection
from dotr.config.sections import KnowledgeSection as KnowledgeSection
from dotr.config.sections import Settings as Settings
from dotr.config.sections import TimeSection as TimeSection
from dotr.config.sections import WindowsSection as WindowsSection
from dotr.config.sections import schema as schema
from dotr.config.sections import schema_problems as schema_problems
from dotr.config.sections import validated as validated
from dotr.config.tree import Location as Location
from dotr.config.tree import Tree as Tree
from dotr.config.tree import read_tree as read_tree
