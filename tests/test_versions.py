"""The scripts behind `make versions` and `make audit`."""

import json
import tomllib

import pytest

import audit
import lowest


def test_every_dependency_has_a_lowest_version():
    needed = tomllib.loads(lowest.PROJECT.read_text(encoding="utf-8"))["project"]["dependencies"]
    assert lowest.lowest(["numpy>=2.0", "tomli-w>=1.1"]) == ["numpy==2.0", "tomli-w==1.1"]
    assert len(lowest.lowest(needed)) == len(needed)
    with pytest.raises(SystemExit, match="numpy"):
        lowest.lowest(["numpy"])


def test_an_audit_names_what_is_vulnerable_and_counts_only_what_was_looked_up():
    bad, good, skipped = (
        {"name": "a", "version": "1", "vulns": [{"id": "CVE-1"}]},
        {"name": "b", "version": "1", "vulns": []},
        {"name": "c", "skip_reason": "not found"},
    )
    assert audit.read(json.dumps({"dependencies": [bad, good, skipped]})) == (2, 1, ["a 1: CVE-1"])
    assert audit.read(json.dumps({"dependencies": [good]})) == (1, 0, [])
    for nothing in ({"dependencies": [skipped]}, {"dependencies": []}, []):  # nobody looked anything up
        assert audit.read(json.dumps(nothing)) is None
    assert audit.read("ConnectionError") is None


def test_an_audit_without_a_database_says_so_and_goes_on(capsys):
    assert audit.main("no-such-command") == 0
    assert "Skipped: no database" in capsys.readouterr().out
