"""The languages of the pages, and what all of them say where something is not there or goes wrong."""

from collections.abc import Mapping

Words = Mapping[str, Mapping[str, str]]
"""Language -> key -> what a page says."""

ENGLISH, CHINESE = "en", "zh"
OTHER = {ENGLISH: (CHINESE, "中文"), CHINESE: (ENGLISH, "English")}
"""Language -> the other one, and its name."""

NOTICES: Words = {
    ENGLISH: {
        "unknown.title": "This link leads nowhere.",
        "unknown.text": "It may be cut off or old. Please open the whole link that you were sent, or ask "
        "whoever sent it for a new one.",
        "large.title": "That was too large.",
        "large.text": "The server takes no request of this size. Nothing was changed.",
        "bad.title": "The server could not read that.",
        "bad.text": "Nothing was changed. Please go back and try again.",
        "failed.title": "Something went wrong on the server.",
        "failed.text": "Please tell whoever sent you the link.",
    },
    CHINESE: {
        "unknown.title": "这个链接无效。",
        "unknown.text": "它可能不完整或已过期。请打开您收到的完整链接，或向发送者索取新的链接。",
        "large.title": "内容太大。",
        "large.text": "服务器不接受这么大的请求。没有任何改动。",
        "bad.title": "服务器无法读取该请求。",
        "bad.text": "没有任何改动。请返回后重试。",
        "failed.title": "服务器出错了。",
        "failed.text": "请告知发送链接的人。",
    },
}
"""Title and text of each notice; a command may have others besides, or say one in its own way."""
