"""The history of calls: one file per config, which the console writes if the config has a `history`.

`toolbus audit usage` and the console read it, even while it is written:

    for call in recorded_calls(history_file("toolbus.yaml"), CallFilter(since=time.time() - 86400)):
        print(call.name, call.outcome, call.server_seconds)
"""
