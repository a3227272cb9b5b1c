from __future__ import annotations

import base64
import hashlib
import json
import re
from importlib import resources

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.reports import page as bundling
from sfumato.reports.page import bundle, inert_json, policy


@given(st.text())
def test_no_text_can_end_the_data_block(text: str) -> None:
    inert = inert_json({"name": text + "</script><!--"})
    assert not set("<>&\u2028\u2029") & set(inert)
    assert json.loads(inert) == {"name": text + "</script><!--"}


def test_the_policy_names_the_hashes_of_what_is_inline() -> None:
    digest = base64.b64encode(hashlib.sha256(b"run()").digest()).decode()
    text = policy("body{}", "run()")
    assert text.startswith("default-src 'none'; ")
    assert f"script-src 'sha256-{digest}'" in text
    assert "unsafe" not in text
    assert "http" not in text


@pytest.mark.parametrize("entry", ["main", "internal"])
def test_scripts_become_one_without_imports(entry: str) -> None:
    text = bundle(entry)
    assert not re.search(r"^\s*(import|export)\b", text, re.MULTILINE)
    for name in re.findall(r"= module_(\w+);", text):
        assert text.index(f"const module_{name} =") < text.index(f"= module_{name};")


def test_scripts_never_parse_html_or_call_out() -> None:
    folder = resources.files("sfumato.reports") / "assets" / "js"
    for file in folder.iterdir():
        text = file.read_text("utf-8")
        for word in ("innerHTML", "outerHTML", "insertAdjacent", "eval(", "fetch("):
            assert word not in text, f"{file.name} uses {word}"
        assert "document.write" not in text
        assert "http:" not in text
        assert "https:" not in text


@pytest.mark.parametrize(
    "text",
    ['import x from "./y.js";\n', "export default 1;\n", 'const a = "</script>";\n'],
)
def test_forms_that_cannot_be_joined_are_refused(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundling, "asset", lambda _: text)
    with pytest.raises(ValueError, match=r"one\.js"):
        bundle("one")
