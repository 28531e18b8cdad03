"""Render the published templates of the data folder by Jinja, for test_published_templates.py: OUTRIDER_TEST_DATA=... python3 make_renderings.py"""
import json
from pathlib import Path

from published import TALKS, TEMPLATES, render, template_text, variants

made = {f"{name} {how}".strip(): [render(TEMPLATES[name], template_text(name), talk, how) for talk in TALKS]
        for name, how in variants()}
to = Path(__file__).parent / "data" / "renderings.json"
to.write_text(json.dumps(made, ensure_ascii=False, indent=1) + "\n")
