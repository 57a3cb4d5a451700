"""RecordIO, the record file of the ElasticDL family.

``chunk``: the bytes of a chunk. ``compression``: its payload. ``payload``: where the records are in it. ``source``: mapped or
remote bytes. ``index``: where the chunks are. ``file``: one file. ``reader``: many files as one. ``writer``: the way in.
"""
