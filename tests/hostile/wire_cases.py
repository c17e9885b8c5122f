"""Cases of odd bytes: HTTP responses, and messages on any wire."""

import gzip

from tests.hostile.wires import answer, chunked, response

RESULT = answer({"id": "@ID@", "method": "tools/call"})
HTTP: dict[str, bytes] = {
    "nothing": b"",
    "bytes that are not HTTP": b"\x00\xff\r\n\r\n",
    "a status of five digits": b"HTTP/1.1 20000 OK\r\n\r\n",
    "a status without a number": b"HTTP/1.1 \xff\xff\r\n\r\n",
    "a version of the future": b"HTTP/9.9 200 OK\r\n\r\n",
    "a flood of interim responses": b"HTTP/1.1 103 Hints\r\nlink: x\r\n\r\n" * 20_000 + response(RESULT),
    "an upgrade": b"HTTP/1.1 101 Up\r\nupgrade: h2c\r\nconnection: upgrade\r\n\r\n",
    "a location that is no URL": response(b"", "location: http://[::1", status="307 Moved"),
    "a location with a port beyond all": response(b"", "location: //x:99999999/", status="308 Moved"),
    "a location in a loop": response(b"", "location: /mcp", status="307 Moved"),
    "a location that is not ASCII": response(b"", "location: /\xe9\xff", status="302 Moved"),
    "a session id that is not ASCII": response(RESULT, "mcp-session-id: \xe9\xff"),
    "two session ids": response(RESULT, "mcp-session-id: a", "mcp-session-id: b"),
    "an odd challenge": response(b"", 'www-authenticate: Bearer realm="\xe9, =,,"', status="401 No"),
    "many cookies": response(RESULT, *(f"set-cookie: c{n}={'x' * 50}; expires=never" for n in range(3_000))),
    "a long cookie": response(RESULT, f"set-cookie: a={'x' * 200_000}"),
    "a cookie of semicolons": response(RESULT, f"set-cookie: {';' * 50_000}"),
    "a header sent many times": response(RESULT, *(["x: y"] * 30_000)),
    "an endless header": b"HTTP/1.1 200 OK\r\nx: " + b"y" * 400_000,
    "a content type that is none": response(RESULT, kind="\xe9;=;"),
    "a body that is longer than it says": response(RESULT) + RESULT,
    "a body that is shorter than it says": response(RESULT, "content-length: 5"),
    "a body cut short": response(RESULT)[:-3],
    "a length beyond all": b"HTTP/1.1 200 OK\r\ncontent-length: " + b"9" * 40 + b"\r\n\r\n",
    "a negative length": b"HTTP/1.1 200 OK\r\ncontent-length: -5\r\n\r\n",
    "chunks of no size": chunked(RESULT, end=b"zz\r\n"),
    "chunks beyond all": chunked(RESULT, end=b"f" * 30 + b"\r\n"),
    "many small chunks": chunked(*(bytes([byte]) for byte in RESULT * 300)),
    "endless trailers": chunked(RESULT, end=b"0\r\n" + b"a: b\r\n" * 100_000),
    "an endless trailer": chunked(RESULT, end=b"0\r\na: " + b"b" * 400_000),
    "an endless chunk extension": chunked(RESULT, end=b"5;" + b"b" * 400_000),
    "bytes that are not gzip": response(b"no gzip", "content-encoding: gzip"),
    "gzip cut short": response(gzip.compress(RESULT)[:-9], "content-encoding: gzip"),
    "gzip with more behind it": response(gzip.compress(RESULT) + b"x" * 500_000, "content-encoding: gzip"),
    "an encoding of the future": response(RESULT, "content-encoding: zstd, gzip"),
    "events that are none": response(b"data" * 9 + b"\n\n\0\n\n", kind="text/event-stream"),
    "an event id that is no text": response(b"id: \xff\xfe\ndata: 1\n\n", kind="text/event-stream"),
    "a long event id": response(b"id: " + b"x" * 300_000 + b"\ndata: 1\n\n", kind="text/event-stream"),
    "a delay beyond all": response(b"retry: " + b"9" * 9 + b"\n\n", kind="text/event-stream"),
    "an empty stream": response(b"", kind="text/event-stream"),
    "a page": response(b"<html>", kind="text/html"),
    "an error that is no error": response(b'{"error":[1]}', status="400 Bad"),
    "an error that is too deep": response(b"[" * 5_000, status="500 Oops"),
    "an error with a number beyond all": response(
        b'{"error":{"code":1' + b"0" * 400 + b',"message":"x"}}', status="500 Oops"
    ),
}
"""Name -> the bytes that answer a call over streamable HTTP."""
DEEP = b"[" * 5_000 + b"]" * 5_000


def _result(text: bytes) -> bytes:
    return b'{"id":"@ID@","result":' + text + b"}"


def _block(text: bytes) -> bytes:
    return _result(b'{"content":[' + text + b"]}")


def _error(code: bytes, data: bytes) -> bytes:
    return b'{"id":"@ID@","error":{"code":' + code + b',"message":"x","data":' + data + b"}}"


TEXTS: dict[str, bytes] = {
    "an error that is null": b'{"id":"@ID@","error":null,"result":{"content":[]}}',
    "progress beyond all": (
        b'{"method":"notifications/progress","params":{"progressToken":"@ID@","progress":1'
        + b"0" * 400
        + b"}}"
    ),
    "progress that is no number": (
        b'{"method":"notifications/progress","params":{"progressToken":"@ID@","progress":NaN}}'
    ),
    "deep nesting": DEEP,
    "a deep result": _result(DEEP),
    "many values": _result(b'{"a":[' + b"[]," * 5_000 + b"1]}"),
    "a long id": b'{"id":1' + b"0" * 5_000 + b',"result":{}}',
    "an id that is no number": b'{"id":NaN,"method":"ping"}',
    "an id that is no text": b'[{"id":"\\ud800","method":"ping"},{"id":"\\ud800","method":"roots/list"}]',
    "many messages in one": b"[" + b'{"method":"ping","id":1},' * 3_000 + b"1]",
    "requests of one id": b"[" + b",".join([b'{"method":"roots/list","id":1}'] * 900) + b"]",
    "bytes that are not UTF-8": _result(b'"\xff\xfe"'),
    "a text without an end": b'{"id":"@ID@","result":"' + b"\\" * 5_001,
    "a result that is a task": _result(b'{"resultType":"task","taskId":5,"status":[]}'),
    "a result that asks": _result(b'{"resultType":"input_required","inputRequests":{"a":{}}}'),
    "a result of the future": _result(b'{"resultType":["x"],"content":[]}'),
    "a block that is none": _block(b'[],5,null,{"type":["text"]}'),
    "content that is none": _result(b'{"content":{},"structuredContent":[],"isError":"yes"}'),
    "an image that is none": _block(b'{"type":"image","data":"\\u00e9","mimeType":""}'),
    "a lone surrogate": _block(b'{"type":"text","text":"\\ud800"}'),
    "an error of an odd code": _error(b"true", b'{"elicitations":5}'),
    "an error that wants a visit": _error(b"-32042", b'{"elicitations":[5,{"url":[]}]}'),
    "an error about capabilities": _error(b"-32021", b'{"requiredCapabilities":[]}'),
    "a header mismatch": _error(b"-32020", b"[]"),
    "a closed connection": _error(b"-32000", b"null"),
    "a request that is none": b'{"id":"q","method":"elicitation/create","params":{"message":[]}}',
    "a log that is none": b'{"method":"notifications/message","params":{"level":5,"data":{}}}',
}
"""Name -> a message, or text that is none."""
