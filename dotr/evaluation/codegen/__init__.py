"""Generated Python: a tree of loops and guards, passes over the tree, one printer, one compiler."""

from dotr.evaluation.codegen.builder import LoopBuilder, WorkCount
from dotr.evaluation.codegen.compilation import check_folder, compiled, define

__all__ = ["LoopBuilder", "WorkCount", "check_folder", "compiled", "define"]
