"""CSRBench's queries in process, at two origins each, against the brute force of the benchmark."""

from __future__ import annotations

import pytest

from benchmarks.csrbench import differences
from tests.support.paths import DATA

FOLDER = DATA / "csrbench" / "data"


@pytest.mark.skipif(not FOLDER.is_dir(), reason="the data set is not here")
def test_queries_agree_with_the_brute_force() -> None:
    found = list(differences(FOLDER, most=2))
    assert [(label, origin) for label, origin, agrees, _, _ in found if not agrees] == []
    assert {label for label, _, _, given, _ in found if given} == {f"Q{n} ({kind})" for n in range(1, 8) for kind in ("windows", "changes")}
