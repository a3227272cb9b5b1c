"""How Sphinx builds the documentation site (`make docs`); tools/docs_site.py lays out the source."""

project = "sfumato"
author = copyright = "The sfumato developers"
extensions = ["myst_parser"]
exclude_patterns = ["site"]
myst_enable_extensions = ["deflist"]
myst_heading_anchors = 4
html_theme = "furo"
html_title = "sfumato"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = ["search.js"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5673", "color-brand-content": "#1f5673"},
    "dark_css_variables": {"color-brand-primary": "#8ec5e2", "color-brand-content": "#8ec5e2"},
}
smartquotes_action = "qe"  # quotation marks and dots; not dashes: --out is no –out
highlight_language = "none"  # indented blocks are output; fences name their language
