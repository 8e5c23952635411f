"""What a diagnosis says, rendered: one file per form.

`json_report` (the contract's document), `terminal` (what a person reads first), `html` (one offline page),
`timeline_parquet` (per-GPU events as a table) and `perfetto` (the same events as a trace). All of them take a
`model.report.Report` and nothing else; none of them decides anything about the jobs.

The helpers they share: `text` (escaping and units), `places` (what an address is called), `facts` (medians, order of
the findings) and `kinds` (title and checks of each kind of finding).
"""
