"""Render the published templates of the data folder by Jinja, for the tests of them: OUTRIDER_TEST_DATA=... python3 make_renderings.py"""
import json
from pathlib import Path

from published import TALKS, TEMPLATES, render, template_text, variants
from published_tools import FORMATS, rendered, talks_of


def write(name, made):
    to = Path(__file__).parent / "data" / name
    to.write_text(json.dumps(made, ensure_ascii=False, indent=1) + "\n")


write("renderings.json", {f"{name} {how}".strip(): [render(TEMPLATES[name], template_text(name), talk, how) for talk in TALKS] for name, how in variants()})
write("tool_renderings.json", {name: [rendered(name, talk) for talk in talks_of(name)] for name in FORMATS})
