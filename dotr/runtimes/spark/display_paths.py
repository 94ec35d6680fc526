"""Paths of dead letters as the user wrote them, from the absolute paths of the workers."""

from __future__ import annotations

import os
from pathlib import Path

from dotr.model.stream import DeadLetter
from dotr.runtimes.pipeline.build import Pipeline
from dotr.streams.formats.lines import STANDARD_INPUT
from dotr.streams.formats.segments import SEGMENT, SPOOL, spool_folder
from dotr.streams.records import Format


class DisplayPaths:
    """Maps absolute paths, and segments of spools, to names of the configuration."""

    def __init__(self, pipeline: Pipeline, checkpoint: Path) -> None:
        self._files = {os.path.abspath(file.path): file.path for file in pipeline.inputs}
        self._folders = [
            (os.path.abspath(folder) + os.sep, folder + os.sep if folder != os.curdir else "")
            for folder in (_folder(each.pattern) for each in pipeline.growing if each.pattern)
        ]
        self._spool_folder = str(checkpoint.absolute() / SPOOL)
        self._received = {
            str(spool_folder(checkpoint.absolute(), each.like.input)): each.source.address for each in pipeline.growing if each.source
        }
        likes = [each.like for each in pipeline.growing]
        self._headers = {like.input for like in likes if like.format is Format.CSV and not (like.map and like.map.columns)}

    def __call__(self, dead_letter: DeadLetter) -> DeadLetter:
        """The dead letter with the user's file and line."""
        path = dead_letter.file
        if path in self._files:
            return dead_letter._replace(file=self._files[path])
        folder, name = os.path.split(path)
        if folder in self._received:
            return dead_letter._replace(file=self._received[folder])
        segment = SEGMENT.fullmatch(name) if folder == self._spool_folder else None
        if segment is not None:
            repeated = dead_letter.input in self._headers
            return dead_letter._replace(file=STANDARD_INPUT, line=dead_letter.line + int(segment[2]) - 1 - repeated)
        for absolute, written in self._folders:
            if path.startswith(absolute):
                return dead_letter._replace(file=written + path[len(absolute) :])
        return dead_letter


def _folder(pattern: str) -> str:
    """The folder of a glob, up to its first wildcard.

    >>> _folder("data/in/*.ndjson"), _folder("*.csv"), _folder("a/b*/c")
    ('data/in', '.', 'a')
    """
    first = next(number for number, letter in enumerate(pattern) if letter in "*?[")
    return pattern[:first].rpartition("/")[0] or os.curdir
