"""Render the published templates of the data folder by Jinja, for test_published_templates.py: OUTRIDER_TEST_DATA=... python3 make_renderings.py"""
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
from cli import data  # noqa: E402
from published import TALKS, TEMPLATES, render, variants  # noqa: E402

made = {f"{name} {how}".strip(): [render(TEMPLATES[name], data(f"templates/{name}.jinja").read_text(), talk, how) for talk in TALKS]
        for name, how in variants()}
to = Path(__file__).parent / "data" / "renderings.json"
to.write_text(json.dumps(made, ensure_ascii=False, indent=1) + "\n")
