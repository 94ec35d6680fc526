"""Reader of configurations: a file with the `--set` options, validated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.evaluation.files.caches import default_folder
from dotr.evaluation.limits import Limits
from dotr.instant.datalog.background.compiled_cache import MIN_BYTES, CachePolicy
from dotr.languages.registry import RuleLanguage
from dotr.model.places import Span
from dotr.model.stream_names import InputStream, stream_name
from dotr.runtimes.pipeline.config import ConfigFiles, read_document
from dotr.runtimes.pipeline.sections import Settings, validated
from dotr.streams.connectors.registry import TRANSPORTS, Transport
from dotr.syntax.yaml import read_tree, set_values


@dataclass(frozen=True, slots=True)
class Config:
    """Validated configuration with the files that it names."""

    settings: Settings
    files: ConfigFiles

    def span(self, *location: str | int) -> Span:
        """The span of the value at a location, or of the innermost value around a missing one."""
        return self.files.tree.span(location)

    @property
    def path(self) -> str:
        """The path of the configuration file."""
        return self.files.tree.document.name

    def transport(self, key: Literal["input", "output"], number: int) -> Transport:
        """The transport of an input or output, by its number from 0 on."""
        section = self.settings.input[number] if key == "input" else self.settings.output[number]
        return next(transport for transport in TRANSPORTS if section.is_given(transport))

    def program(self) -> ProgramSpec:
        """The program of the configuration. Raises `Refused` with every unreadable file."""
        spec, problems = self.spec()
        if problems:
            raise Refused(problems)
        return spec

    def cache_policy(self, least: int = MIN_BYTES, *, fresh: bool = False) -> CachePolicy:
        """The policy of the cache of compiled backgrounds.

        `least` is the smallest size of the sources (bytes) at which a background is cached. `fresh`
        ignores the cached one.
        """
        path = self.settings.knowledge.cache
        folder = default_folder() if path is None else Path(self.files.path(path, ("knowledge", "cache"))).absolute()
        return CachePolicy(folder, least, fresh, self.settings.knowledge.shared)

    def spec(self) -> tuple[ProgramSpec, list[Diagnostic]]:
        """The program without its unreadable files, and their problems."""
        settings = self.settings
        spec, problems = self.files.spec(settings.rules, settings.knowledge, settings.prefixes, settings.time, settings.windows)
        limits = settings.limits
        inputs = tuple(
            InputStream(each.name, None if each.stream is None else stream_name(each.stream, settings.prefixes)) for each in settings.input
        )
        return replace(spec, limits=Limits(**limits.model_dump()), inputs=inputs if spec.has_units else ()), problems


def read_config(path: str, options: Sequence[str] = ()) -> Config:
    """Read and validate a configuration. `options` are `--set` options, `key.path=value`.

    Raises `Refused` with all problems of the YAML text, or of the options, or of the schema.
    """
    document = read_document(path)
    if Path(path).suffix == ".dlog" or RuleLanguage.of(path) is not None:
        raise refuse("C102", f"{path} is no configuration", None, "Name the configuration (.yaml) that names it.")
    tree = read_tree(document)
    if tree.data is None:
        hint = "It needs name, rules, input and output at least; `dotr new DIR` writes a small project."
        raise refuse("C102", f"{path} is empty", None, hint)
    if not isinstance(tree.data, dict):
        raise refuse("C102", "a configuration is a mapping of keys to values", tree.span(()), "It begins with a line such as name: fire")
    if "cases" in tree.data:
        raise refuse("C102", f"{path} is a rule test, and no configuration", tree.key_span(("cases",)), "`dotr test` runs it.")
    tree, overridden = set_values(tree, options)
    return Config(validated(Settings, tree.data, tree), ConfigFiles(tree, Path(path).parent, overridden))
