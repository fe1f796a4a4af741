"""A small made-up corpus in the format of CAIL2018, so that everything runs on a machine with no data.

Each fact is put together from Chinese sentences of our own: an opening, one or two sentences that tell the
deed and with it charge and article, one that tells how grave it was and with it the term, and some that tell
nothing. Charges share words (`被害人`, `现场`, `人民币`), so a word says something only with its sentence
around it. A few cases are there for the filters: several charges, an article of the general part, a charge
that is too rare, several defendants, terms on the edges of the classes.
"""

import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NUM_CASES = {"train": 1500, "val": 200, "test": 250}
"""Cases of each split; a train split of at least 100 a charge, which the recipes ask for, and no more."""

_P_ODD = 0.06
"""Share of cases that are there for the filters."""


@dataclass(frozen=True, slots=True)
class _Deed:
    charge: str
    """As the official files write it, sometimes with brackets."""

    article: int
    sentences: tuple[str, ...]
    """One or two of them tell the deed."""

    degrees: tuple[str, ...]
    """How grave it was, from the mildest on."""


_DEEDS = (
    _Deed(
        "盗窃",
        264,
        (
            "趁店内无人看管之机，将柜台上的{thing}偷走",
            "翻墙进入被害人{victim}家中，窃得{thing}一{unit}",
            "在公交车上用镊子扒窃被害人{victim}口袋里的{thing}",
            "撬开停在路边的车辆车窗，秘密窃取车内{thing}",
            "夜间溜进工地仓库，偷拿{thing}后低价变卖",
        ),
        (
            "所窃财物价值较小",
            "所窃财物价值较大",
            "所窃财物价值数额较大且系多次作案",
            "所窃财物数额巨大",
            "所窃财物数额巨大且系入户作案",
            "所窃财物数额特别巨大",
        ),
    ),
    _Deed(
        "故意伤害",
        234,
        (
            "因琐事与被害人{victim}发生争执，持{weapon}将其打伤",
            "酒后与邻桌的被害人{victim}互相推搡，挥拳击中其面部",
            "为报复被害人{victim}，伙同他人在巷口对其殴打",
            "因停车纠纷持{weapon}砸向被害人{victim}的手臂",
            "在饭店门口用{weapon}划伤被害人{victim}的背部",
        ),
        (
            "经鉴定，伤情构成轻微伤",
            "经鉴定，伤情构成轻伤二级",
            "经鉴定，伤情构成轻伤一级",
            "经鉴定，伤情构成重伤二级",
            "经鉴定，伤情构成重伤一级并致残疾",
            "被害人经抢救无效死亡",
        ),
    ),
    _Deed(
        "危险驾驶",
        133,
        (
            "饮酒后驾驶小型轿车行驶至{road}，被执勤民警查获",
            "醉酒驾驶摩托车途经{road}时被当场拦下",
            "酒后驾驶面包车在{road}追尾前车，随即报警",
            "聚餐饮酒后执意驾车回家，在{road}接受酒精检测",
            "无证驾驶且饮酒，在{road}逆向行驶时被拦截",
        ),
        (
            "血液中酒精含量刚过醉驾标准",
            "血液中酒精含量较高",
            "血液中酒精含量很高",
            "血液中酒精含量极高",
            "血液中酒精含量极高且抗拒检查",
            "血液中酒精含量极高且曾因此受过处罚",
        ),
    ),
    _Deed(
        "诈骗",
        266,
        (
            "虚构能代办工作的事实，骗取被害人{victim}人民币若干",
            "冒充客服人员致电被害人{victim}，诱使其转账",
            "谎称投资项目回报丰厚，骗得被害人{victim}的积蓄",
            "以恋爱为名隐瞒真实身份，多次向被害人{victim}骗钱",
            "在网上发布虚假{thing}信息，收取定金后失去联系",
        ),
        (
            "骗得数额较小",
            "骗得数额较大",
            "骗得数额较大且未退赔",
            "骗得数额巨大",
            "骗得数额巨大且挥霍一空",
            "骗得数额特别巨大",
        ),
    ),
    _Deed(
        "寻衅滋事",
        293,
        (
            "在烧烤摊无故掀翻桌椅，随意辱骂路人",
            "酒后在{road}拦截过往车辆，任意打砸",
            "为逞强在网吧追逐、恐吓被害人{victim}",
            "强拿硬要商贩的{thing}，扰乱市场秩序",
            "在广场起哄闹事，肆意毁坏公用设施",
        ),
        (
            "情节较轻",
            "情节恶劣",
            "情节恶劣且造成多人受惊",
            "造成秩序严重混乱",
            "纠集他人多次实施，秩序严重混乱",
            "纠集多人长期实施，影响极坏",
        ),
    ),
    _Deed(
        "[非法拘禁]",
        238,
        (
            "为索要欠款将被害人{victim}锁在出租屋内，不准离开",
            "强行把被害人{victim}带到宾馆房间轮流看管",
            "限制被害人{victim}的人身自由，没收其手机",
            "将被害人{victim}关在车里往返于{road}",
            "派人守在门口，不许被害人{victim}外出",
        ),
        ("时间较短", "时间超过一天", "时间超过三天", "期间多次打骂被害人", "致被害人重伤", "致被害人死亡"),
    ),
)
_RARE = _Deed("放火", 114, ("点燃堆放在{road}边的柴草",), ("火势被及时扑灭",))

_MONTHS = ((0, 1, 3, 6), (6, 7, 9), (9, 10, 12), (13, 18, 24, 30), (36, 37, 48, 60), (61, 84, 96, 120, 132))
"""Terms of each degree, the edges of the classes among them."""

_OPENINGS = (
    "公诉机关指控，{date}，被告人{name}",
    "经审理查明，{date}，被告人{name}",
    "人民检察院起诉书指控：{date}，被告人{name}",
    "{date}，被告人{name}",
)
_NEUTRAL = (
    "案发后，被告人{name}在家中被民警抓获",
    "被告人{name}到案后如实供述了上述事实",
    "上述事实，有证人证言、现场照片等证据证实",
    "被告人{name}对指控的事实没有异议",
    "当日天气晴朗，现场有多名群众围观",
    "民警接到报警后赶到现场处置",
    "被告人{name}的家属已与被害人{victim}达成谅解",
    "涉案物品已由公安机关依法扣押",
    "被告人{name}系外来务工人员，暂住本市",
    "公诉机关当庭出示了相关书证",
)
_FILL = {
    "thing": ("手机", "现金", "电动车", "金项链", "笔记本电脑", "香烟", "铜线", "钱包"),
    "unit": ("只", "台", "件"),
    "weapon": ("木棍", "酒瓶", "水果刀", "铁锹"),
    "road": ("人民路", "解放大道", "中山街", "滨河路", "火车站广场"),
    "name": ("张某", "李某甲", "王某", "赵某", "陈某乙", "刘某", "杨某"),
    "victim": ("周某", "吴某", "郑某", "孙某丙", "冯某", "何某"),
}


def write_cail(
    root: Path, files: Mapping[str, Path], *, seed: int, num_cases: Mapping[str, int] = NUM_CASES
) -> None:
    """Write the official files and lists; equal arguments give equal bytes.

    Args:
        root: the folder that stands for the unpacked archive.
        files: path of each split's file under `root`.
    """
    for split, name in files.items():
        rng = random.Random(f"cail {split} {seed}")
        lines = (json.dumps(make_case(rng), ensure_ascii=False) + "\n" for _ in range(num_cases[split]))
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(lines), encoding="utf-8")
    meta = root / "meta"
    meta.mkdir(exist_ok=True)
    deeds = (*_DEEDS, _RARE)
    (meta / "accu.txt").write_text("".join(f"{deed.charge}\n" for deed in deeds), encoding="utf-8")
    articles = sorted({67, *(deed.article for deed in deeds)})
    (meta / "law.txt").write_text("".join(f"{article}\n" for article in articles), encoding="utf-8")


def make_case(rng: random.Random) -> dict[str, Any]:
    """One record of the official form."""
    deed = rng.choice(_DEEDS)
    degree = min(rng.randrange(6), rng.randrange(6))  # grave cases are rarer
    meta: dict[str, Any] = {
        "accusation": [deed.charge],
        "relevant_articles": [deed.article],
        "criminals": [rng.choice(_FILL["name"])],
    }
    if rng.random() < _P_ODD:
        deed = _make_odd(rng, deed, meta)
        degree = min(degree, len(deed.degrees) - 1)
    life = degree == 5 and rng.random() < 0.3
    meta["punish_of_money"] = 1000 * rng.randrange(6)
    meta["term_of_imprisonment"] = {
        "death_penalty": False,
        "life_imprisonment": life,
        "imprisonment": 0 if life else rng.choice(_MONTHS[degree]),
    }
    return {"fact": _fact(rng, deed, degree, meta["criminals"][0]), "meta": meta}


def _make_odd(rng: random.Random, deed: _Deed, meta: dict[str, Any]) -> _Deed:
    """Change a case so that a filter meets it; returns its deed."""
    kind = rng.randrange(4)
    if kind == 0:
        other = rng.choice([one for one in _DEEDS if one is not deed])
        meta["accusation"].append(other.charge)
        meta["relevant_articles"].append(other.article)
    elif kind == 1:
        meta["relevant_articles"] = [67]
    elif kind == 2:
        meta["criminals"].append("某某")
    else:
        meta.update(accusation=[_RARE.charge], relevant_articles=[_RARE.article])
        return _RARE
    return deed


def _fact(rng: random.Random, deed: _Deed, degree: int, name: str) -> str:
    date = (
        f"201{rng.randrange(3, 9)}年{rng.randrange(1, 13)}月{rng.randrange(1, 29)}日{rng.randrange(24)}时许"
    )
    told = rng.sample(deed.sentences, min(len(deed.sentences), rng.choice((1, 1, 2))))
    told.append(deed.degrees[degree])
    told += rng.sample(_NEUTRAL, rng.choice((1, 2, 2, 3)))
    text = rng.choice(_OPENINGS) + told[0] + "".join(f"。{sentence}" for sentence in told[1:]) + "。"
    words = {slot: rng.choice(choices) for slot, choices in _FILL.items()}
    return text.format(**{**words, "name": name, "date": date})
