"""Streams of elements in files: formats, the merge of inputs by time, lateness, sinks, dead letters.

An `InputFile` says all there is to know of a file and goes anywhere as JSON; `check_input` refuses it early, `clock_of` says how a pipeline
writes time.

- In one process, one pass: `merged(files, dead)` gives `(time, [elements])` in time order, every instant complete; what is late or
  unreadable goes to `dead` as a `DeadLetter` when it is met.
- Planned elsewhere: `Reader(file, elements=False).records()` is a scan, records with their `offset`, `line` and `time` (None: unreadable,
  in a scan as in a full reading). Any record's `Position(offset, line)` is where a `Reader` can start; `records(stop)` ends before the
  record at or behind an offset and a later call goes on there. `RecordSource(file, records, Lateness(delay, greatest))` goes into `instants`,
  where `greatest` is the greatest time of the file's records before.

Text comes from `dotr.outputs.writer` and `letter_line`; it goes to a `FileSink`, or to a folder as a `BatchFile`.
"""

from dotr.io.dead_letters import letter_line as letter_line
from dotr.io.growing import Folder as Folder
from dotr.io.growing import GrowingInput as GrowingInput
from dotr.io.growing import stable_files as stable_files
from dotr.io.lateness import Lateness as Lateness
from dotr.io.merge import OnReject as OnReject
from dotr.io.merge import RecordSource as RecordSource
from dotr.io.merge import instants as instants
from dotr.io.merge import merged as merged
from dotr.io.reading import Reader as Reader
from dotr.io.reading import check_input as check_input
from dotr.io.reading import clock_of as clock_of
from dotr.io.reading import dated as dated
from dotr.io.records import START as START
from dotr.io.records import CsvMap as CsvMap
from dotr.io.records import Format as Format
from dotr.io.records import InputFile as InputFile
from dotr.io.records import Position as Position
from dotr.io.records import Record as Record
from dotr.io.records import SourcedElement as SourcedElement
from dotr.io.sinks import BatchFile as BatchFile
from dotr.io.sinks import FileSink as FileSink
from dotr.io.sinks import WriteFailed as WriteFailed
from dotr.io.sinks import check_new as check_new
from dotr.io.sinks import passing as passing
from dotr.io.times import format_time as format_time
from dotr.io.times import parse_date_time as parse_date_time
from dotr.io.times import parse_delay as parse_delay
from dotr.io.times import parse_time as parse_time
