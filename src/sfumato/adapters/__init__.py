"""Other pipelines' data, in and out, on their own column names.

multimno (Eurostat) and FlowKit (Flowminder) end with a step that suppresses small counts. These
adapters put a release in its place: they find events, antennas and zones where the pipeline keeps
them, and write a release in the form in which the pipeline publishes.

* `inputs`: what a release needs, found.
* `multimno`, `flowkit`: one pipeline each, with its schemas as they are documented.
* `published`: a release folder, checked, to be written in another form.
* `registry`: the pipelines by name.
"""
