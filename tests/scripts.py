"""Benchmarks as modules: what they are made of can be tested apart."""

import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType


@contextmanager
def imported(script: Path) -> Iterator[ModuleType]:
    """A script as a module, with what lies beside it at hand."""
    sys.path.append(str(script.parent))
    try:
        spec = importlib.util.spec_from_file_location(f"benchmark_of_{script.stem}", script)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(script.parent))
