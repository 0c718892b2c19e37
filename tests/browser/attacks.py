"""Texts that try to become a script, a request or another page when a session is shown in HTML."""

from __future__ import annotations

from typing import Any

from tests.samples import entry, header, message

# What a script of a session would do: a mark, a dialog, a request. None of it may happen.
_RUN = "window.pwned=1;alert(1)"

ATTACKS = (
    f"<script>{_RUN}</script>",
    f"</script><script>{_RUN}</script>",
    f"</noscript><script>{_RUN}</script><noscript>",
    f"</style><script>{_RUN}</script>",
    f"</template></textarea></title><script>{_RUN}</script>",
    f"--><script>{_RUN}</script><!--",
    f"]]><script>{_RUN}</script>",
    "<!--<script>",
    f'"><img src=x onerror="{_RUN}">',
    f"'><img src=x onerror='{_RUN}'>",
    f"` onerror={_RUN} x=`",
    f'" onmouseover="{_RUN}" autofocus onfocus="{_RUN}" x="',
    f"<svg onload={_RUN}><animate onbegin={_RUN} attributeName=x dur=1s>",
    f"<svg><script>{_RUN}</script></svg>",
    f"<math><mtext><table><mglyph><style><img src=x onerror={_RUN}>",
    f"<details open ontoggle={_RUN}>",
    f'<iframe srcdoc="<script>parent.pwned=1</script>"></iframe><iframe src="javascript:{_RUN}">',
    '<object data="data:text/html,<script>parent.pwned=1</script>"><embed src="//evil.example/x">',
    '<base href="https://evil.example/"><link rel=stylesheet href="//evil.example/x.css">',
    '<meta http-equiv="refresh" content="0;url=https://evil.example/">',
    '<form action="https://evil.example/"><input name=find id=find autofocus><button>go',
    "<img src=https://evil.example/pixel.png><video src=//evil.example/v autoplay>",
    "<style>@import url(https://evil.example/x);*{background:url(//evil.example/y)}</style>",
    '<p style="background:url(https://evil.example/z);position:fixed;inset:0">',
    '<a id="outline"></a><a id="talk" name="talk"></a><img name="getElementById">',
    "<a id=sessiontreePage></a><form name=body><input name=attributes></form>",
    f"[click](javascript:{_RUN})",
    f"[click](JaVaScRiPt:{_RUN}) [b](java&#115;cript:{_RUN}) [c](java&Tab;script:{_RUN})",
    f"[d]( javascript:{_RUN}) [e](<javascript:{_RUN}>) [f](\x01javascript:{_RUN})",
    f"<javascript:{_RUN}> <data:text/html,x>",
    f"[g][x]\n\n[x]: javascript:{_RUN}",
    "[h](data:text/html;base64,PHNjcmlwdD5hbGVydCgxKTwvc2NyaXB0Pg==) [i](vbscript:x)",
    "[j](//evil.example) [jj](\\\\evil.example)",
    "[k](file:///etc/passwd) [l](blob:https://evil.example/x) [m](https:evil) [n](https://\\evil)",
    f'![alt](https://evil.example/a.png) ![b](data:image/svg+xml,<svg/onload={_RUN}>)',
    f'![x" onerror="{_RUN}](y) ![`<b>`](z "t\\" onload=\\"{_RUN}")',
    f"```html\"><script>{_RUN}</script>\n<script>{_RUN}</script>\n```",
    f"```python onmouseover={_RUN}\nx = '</code></pre><script>{_RUN}</script>'\n```",
    f"| a | b |\n|:-:|--:|\n| <img src=x onerror={_RUN}> | `</td><script>{_RUN}</script>` |",
    f"&lt;script&gt;{_RUN}&lt;/script&gt; &#60;script&#62;{_RUN}&#60;/script&#62;",
    f"\\u003cscript\\u003e{_RUN}\\u003c/script\\u003e \\x3cscript\\x3e",
    "\u202egnp.exe\u202c \u2066hidden\u2069 \u200f&#x202e;entity &#8238;entity",
    "\x00\x01\x1b]0;title\x07\x1b[31mred\x9b31m \ud800 \ufffe \u2028\u2029",
    f"${{{_RUN}}} {{{{{_RUN}}}}} <%={_RUN}%> #{{{_RUN}}}",
    '{"rows":[],"leaf":-1}</script>',
    f"<x onclick={_RUN}><button popovertarget=x><dialog open>",
    f'<a href="javascript:{_RUN}">x</a><a href=" javascript:{_RUN}">y</a>',
    f'<noscript><p title="</noscript><img src=x onerror={_RUN}>"><plaintext><xmp>',
    (f'<svg></p><style><a id="</style><img src=x onerror={_RUN}>"><math><annotation-xml '
    f'encoding="text/html"><style></math><img src=x onerror={_RUN}>'),
    (f'<https://a.example/"onmouseover="{_RUN}> https://b.example/"onfocus="{_RUN}"autofocus=" '
    f"[c](<https://c.example/' onclick='{_RUN}>) [<img src=x onerror={_RUN}>](https://d.example)"),
    f'[t](https://e.example "x\" onclick=\"{_RUN}") | [u](https://f.example/?\n"{_RUN}) |',
    f"| a |\n|---|\n| [x](javascript:{_RUN}) ![y](javascript:{_RUN}) <javascript:{_RUN}> |",
    '```hidden" style="background:url(//evil.example/c)" class="skip label\nx\n```',
    "<form name=location id=rows><input name=href><input name=children></form><img name=fetch>",
    "<a id=sessiontreeView><a id=sessiontreeView name=root href=//evil.example></a>",
    "name\r\nSet-Cookie: a=b\r\n\r\n<script>window.pwned=1</script>",
    "../../../../etc/passwd%00%2e%2e%2f?token=x#m-side0000",
    "__proto__",
    "constructor",
)  # fmt: skip


def hostile_session() -> list[dict[str, Any]]:
    """A session with every attack in every place that an agent, a tool or a stranger may fill."""
    records: list[dict[str, Any]] = [header(title=ATTACKS[1], cwd=ATTACKS[8])]
    parent: str | None = None
    for number, attack in enumerate(ATTACKS):
        for part in _parts(attack, number):
            entry_id = part["id"] or f"{number:04x}{len(records):04x}"
            records.append({**part, "id": entry_id, "parentId": parent})
            parent = entry_id
        # A branch of its own beside what follows.
        side = message(f"side{number:04x}", parent, {"role": "user", "content": attack})
        records.append(side)
    return records


def _parts(attack: str, number: int) -> list[dict[str, Any]]:
    """Entries that hold the attack, without their places in the tree."""
    call_id = f"call{number}"
    picture = {"type": "image", "mimeType": attack, "data": attack}
    drawn = {"type": "image", "mimeType": "image/svg+xml", "data": "PHN2Zy8+", "name": attack}
    broken = {"type": "image", "mimeType": "image/png", "data": f'AAAA"onerror="{attack}'}
    blocks = [
        {"type": "text", "text": attack},
        {"type": "thinking", "thinking": attack},
        {"type": "toolCall", "id": call_id, "name": attack, "arguments": {attack: attack}},
        {"type": "toolCall", "id": attack, "name": "edit", "arguments": {
            "path": attack, "oldText": attack, "newText": f"new {attack}"}},
        {"type": "toolCall", "id": "w", "name": "write", "arguments": {
            "path": f"{attack}.py", "content": attack}},
        {"type": "toolCall", "id": "b", "name": "bash", "arguments": {"command": attack}},
        {"type": attack},
    ]  # fmt: skip
    return [
        _message(number, {"role": "user", "content": [blocks[0], picture, drawn, broken]}),
        _message(number, {"role": "assistant", "content": blocks, "model": attack,
                          "provider": attack, "stopReason": "error", "errorMessage": attack,
                          "usage": {"input": 1, "totalTokens": 1, "cost": {"total": 0.1}}}),
        _message(number, {"role": "toolResult", "toolCallId": call_id, "toolName": attack,
                          "isError": True, "content": [blocks[0], picture],
                          "details": {"diff": f"+{attack}\n-{attack}\n@@ {attack}"}}),
        _message(number, {"role": "toolResult", "toolCallId": "w", "toolName": "write",
                          "content": [blocks[0]]}),
        _message(number, {"role": "bashExecution", "command": attack, "output": attack,
                          "exitCode": 1}),
        _message(number, {"role": attack, "customType": attack, "content": attack}),
        _message(number, {"role": "system", "content": attack, "sections": {attack: attack}}),
        {**_other(number, "custom_message"), "customType": attack, "content": attack,
         "display": True},
        {**_other(number, "compaction"), "summary": attack, "tokensBefore": attack},
        {**_other(number, "branch_summary"), "summary": attack, "fromId": attack},
        {**_other(number, "model_change"), "provider": attack, "modelId": attack, "model": attack},
        {**_other(number, "thinking_level_change"), "thinkingLevel": attack},
        {**_other(number, attack), "timestamp": attack},
        {**_message(number, {"role": "user", "content": attack}), "id": attack,
         "timestamp": attack},
        {**_other(number, "label"), "targetId": attack, "label": attack},
        {**_other(number, "session_info"), "name": attack},
    ]  # fmt: skip


def _message(number: int, content: dict[str, Any]) -> dict[str, Any]:
    return {**message("", None, content), "timestamp": _time(number)}


def _other(number: int, kind: str) -> dict[str, Any]:
    return {**entry(kind, "", None), "timestamp": _time(number)}


def _time(number: int) -> str:
    return f"2026-02-01T10:{number:02d}:00.000Z"
