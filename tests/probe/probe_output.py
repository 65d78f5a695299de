"""Runs tidepool-probe, and holds every line that it writes to the format that tools/probe/record.h describes."""

import json
import os
import subprocess

SCHEMA = "tidepool.probe/1"
MEMBERS = {
    "result": {"section", "kind", "name", "params", "unit", "n", "min", "p50", "p90", "max"},
    "answer": {"section", "kind", "name", "value"},
    "skipped": {"section", "kind", "name", "why"},
    "end": {"section", "kind", "seconds"},
}
OPTIONAL = {"answer": {"params", "detail"}}
DEVICE_MEMBERS = {"simulated", "driver_version", "device", "compute_capability", "multiprocessors", "total_bytes", "exportable_handles"}
START_MEMBERS = {"schema", "section", "kind", "unix_seconds", "preloaded", "quick"}


def refuse_constant(name):
    raise ValueError(f"{name} is no JSON")


def check_record(section, record, first):
    kind = record["kind"]
    assert record["section"] == section, record
    assert (kind == "start") == first, record
    members = set(record)
    if kind == "start":
        assert record["schema"] == SCHEMA, record
        assert members in (START_MEMBERS, START_MEMBERS | DEVICE_MEMBERS), record
        return
    wanted = MEMBERS[kind]
    assert wanted <= members <= wanted | OPTIONAL.get(kind, set()), record
    if kind == "result":
        assert record["n"] >= 1, record
        assert 0 <= record["min"] <= record["p50"] <= record["p90"] <= record["max"], record


class Output:
    """The records of one section."""

    def __init__(self, section, text):
        assert text.endswith("\n"), "the last line is not complete"
        self.records = [json.loads(line, parse_constant=refuse_constant) for line in text.splitlines()]
        for number, record in enumerate(self.records):
            check_record(section, record, number == 0)
        assert [r["kind"] for r in self.records].count("end") == 1, "want one end"
        assert self.records[-1]["kind"] == "end", self.records[-1]

    def of(self, kind, name):
        return [r for r in self.records if r["kind"] == kind and r["name"] == name]

    def values(self, name):
        found = [r["value"] for r in self.of("answer", name)]
        assert found, f"no answer {name}"
        return found

    def value(self, name):
        (value,) = self.values(name)
        return value

    def results(self, name, **params):
        found = [r for r in self.of("result", name) if all(r["params"].get(k) == v for k, v in params.items())]
        assert found, f"no result {name} with {params}"
        return found

    def skipped(self):
        return {(r["name"], r["why"]) for r in self.records if r["kind"] == "skipped"}


class Runner:
    def __init__(self, simgpu, probe, preload, driver):
        self.simgpu, self.probe, self.preload, self.driver = simgpu, probe, preload, driver

    def words(self, section, *more, memory="1GiB", seed=1):
        options = ["--memory", memory, "--seed", str(seed)]
        return [self.simgpu, *options, "--", self.probe, section, *more]

    def run(self, section, *more, environment=None, **simgpu):
        command = self.words(section, "--quick", *more, **simgpu)
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=100, check=False, env=dict(os.environ, **environment or {})
        )
        assert done.returncode == 0, (done.returncode, done.stderr, done.stdout[-500:])
        return Output(section, done.stdout)


    def run_bare(self, section, environment):
        """Without simgpu: the environment says which driver there is."""
        done = subprocess.run(
            [self.probe, section, "--quick"], capture_output=True, text=True, timeout=100, check=False,
            env=dict(os.environ, **environment)
        )
        assert done.returncode == 0, (done.returncode, done.stderr, done.stdout[-500:])
        return Output(section, done.stdout)
