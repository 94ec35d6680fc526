"""Generated Python: a tree of loops and guards, passes over it, one printer, and the one place that compiles."""

from dotr.codegen.builder import LoopBuilder, WorkCount
from dotr.codegen.compilation import check_folder, compiled, define

__all__ = ["LoopBuilder", "WorkCount", "check_folder", "compiled", "define"]
