"""A run as JUnit XML, as CI systems read it: a test case for each capture, its report as the text of the failure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

from .result import Result


def as_junit(results: list[Result], report: Callable[[Result], str]) -> bytes:
    """The document. `report` gives the text of a result."""
    failures = sum(result.error is None and not result.passed for result in results)
    errors = sum(result.error is not None for result in results)
    numbers = {"tests": len(results), "failures": failures, "errors": errors}
    attributes = {name: str(number) for name, number in numbers.items()}
    seconds = f"{sum(result.seconds for result in results):.3f}"
    suites = ET.Element("testsuites", attributes | {"time": seconds})
    suite = ET.SubElement(suites, "testsuite", attributes | {"name": "capture-replay", "time": seconds, "skipped": "0"})
    for result in results:
        path = Path(result.file)
        case = ET.SubElement(
            suite,
            "testcase",
            {
                "classname": _fit(str(path.parent)),
                "name": _fit(path.name),
                "file": _fit(result.file),
                "time": f"{result.seconds:.3f}",
            },
        )
        if not result.passed:
            text = report(result)
            first = next((line for line in text.splitlines() if line.strip()), "")
            kind = "failure" if result.error is None else "error"
            ET.SubElement(case, kind, {"message": _fit(first.strip()), "type": kind}).text = _fit(text)
        if result.output:
            ET.SubElement(case, "system-out").text = _fit("\n".join(result.output))
    ET.indent(suites)
    document: bytes = ET.tostring(suites, encoding="utf-8", xml_declaration=True)
    return document + b"\n"


def _fit(text: str) -> str:
    """XML 1.0 (section 2.2) has no place for control characters, surrogates and two others, not even escaped."""
    return "".join(
        c if c in "\t\n" or (c >= " " and not "\ud800" <= c <= "\udfff" and c < "\ufffe") or c > "\uffff" else "�"
        for c in text
    )
