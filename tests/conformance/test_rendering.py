"""What an answer looks like in each platform's own markup, and what a question may hold."""

from __future__ import annotations

import re
import time

import pytest

from bots.common.message_split import cut_markdown
from core.types import Citation, Question
from tests.conformance.bot import Bot
from tests.conformance.platforms import until
from tests.conformance.scenarios import (
    LINKED_ONCE,
    ONE_COMMENT,
    OWN_MARKUP,
    POSTED_WHOLE,
    SHORT_POSTS,
    SHORTENED,
    WHOLE,
    cannot,
    runs_in_terminal,
)
from tests.support.answers import ADDRESSES, long_answer

NO_SPLIT = "a terminal takes an answer of any length"
NO_ADDRESSES = "a terminal shows addresses as they are"
NO_BELL = "nothing that is printed rings at anybody"


async def answered(bot: Bot, markdown: str) -> str:
    """Return what a question is shown as an answer, all its messages in one text."""
    bot.script.says = lambda _: markdown
    await bot.ask(bot.private(), "How?")
    return "\n".join(bot.texts(bot.private()))


@runs_in_terminal
async def test_emphasis_headings_and_rules_leave_no_raw_markup(bot: Bot) -> None:
    text = await answered(bot, "# Heading\n\nThis is **important** and *slanted* and ~~gone~~.\n\n---\n\nEnd.")
    for word in ("Heading", "important", "slanted", "gone", "End"):
        assert word in text
    assert not re.search(r"\*\*|~~|^#", text, re.MULTILINE) or bot.platform in ("discord", "github", "gitlab")
    own = {"slack": "*important*", "discord": "**important**"}
    assert own.get(bot.platform, "important") in text


@runs_in_terminal
async def test_lists_keep_their_items_order_and_depth(bot: Bot) -> None:
    text = await answered(bot, "1. first\n2. second\n   - inner\n3. third\n\n- a\n- b")
    lines = [line for line in text.splitlines() if line.strip()]
    order = [
        next(index for index, line in enumerate(lines) if word in line)
        for word in ("first", "second", "inner", "third")
    ]
    assert order == sorted(order)
    assert len(set(order)) == 4
    assert lines[order[0]].strip().startswith("1")
    assert lines[order[3]].strip().startswith("3")
    indent = [len(line) - len(line.lstrip()) for line in lines]
    assert indent[order[2]] > indent[order[1]]


@runs_in_terminal
async def test_code_stays_as_it_is(bot: Bot) -> None:
    code = 'if a < b and c > d:\n    print(f"{a}*{b}* _x_ & @everyone [1](2)")\n    # **not bold**'
    bot.script.says = lambda _: f"Run this:\n\n```python\n{code}\n```\n\nDone."
    await bot.ask(bot.private(), "How?")
    [message] = bot.messages(bot.private())
    shown_code = "\n".join(message.code).replace("\u2060", "")
    for line in code.splitlines():
        assert line in shown_code
    assert "Done." in message.text


@runs_in_terminal
async def test_inline_code_stays_as_it_is(bot: Bot) -> None:
    text = await answered(bot, "Call `rotate_keys(*args, **more)` or `a < b`.")
    assert "rotate_keys(*args, **more)" in text
    assert "a < b" in text


@runs_in_terminal
@cannot(github=OWN_MARKUP)
async def test_a_table_keeps_its_rows_and_columns(bot: Bot) -> None:
    text = await answered(bot, "| name | size |\n|---|---|\n| small | 1 |\n| very large | 1000 |")
    rows = [line for line in text.splitlines() if re.search(r"name|small|large", line)]
    assert len(rows) == 3
    assert re.search(r"small\W+1\b", rows[1])
    assert re.search(r"very large\W+1000", rows[2])
    second = [line.rstrip().rfind(cell) for line, cell in zip(rows, ("size", "1", "1000"), strict=True)]
    assert len(set(second)) == 1, "the columns stand below each other"


@runs_in_terminal
async def test_links_are_links(bot: Bot) -> None:
    bot.script.says = lambda _: "See [the guide](https://example.org/guide?a=1&b=2) and go on."
    await bot.ask(bot.private(), "Where?")
    [message] = bot.messages(bot.private())
    assert message.links == ("https://example.org/guide?a=1&b=2",)
    assert "the guide" in message.text


FRAMES = ["See {} for more.", "({})", "看{}。", "**{}**", "- {},\n- it", "{}"]


@pytest.mark.parametrize("address", ADDRESSES)
@cannot(bluesky=SHORTENED, console=NO_ADDRESSES)
async def test_an_address_is_a_link_as_it_stands(bot: Bot, address: str) -> None:
    if bot.platform == "mastodon" and address.endswith("]"):
        pytest.skip("Mastodon ends an address before this sign")
    answers = [frame.format(address) for frame in FRAMES]
    bot.script.says = lambda _: answers[len(bot.script.questions) - 1]
    for number, answer in enumerate(answers):
        await bot.ask(bot.private(), f"Where is number {number}?")
        *earlier, message = bot.messages(bot.private())
        assert len(earlier) == number
        assert message.links == (address,), answer
        assert address in message.text, answer


@cannot(console=NO_ADDRESSES)
async def test_a_link_of_any_length_leads_where_it_should(bot: Bot) -> None:
    address = f"https://example.org/{'a_' * 400}"
    bot.script.citations = [Citation(1, "a", "docs", "The guide", "guide.md", f"{address}b")]
    bot.script.says = lambda _: f"See [the guide]({address}c) and go on [1]."
    await bot.ask(bot.private(), "Where?")
    [message] = bot.messages(bot.private())
    assert {f"{address}b", f"{address}c"} <= set(message.links)
    assert "the guide" in message.text
    assert "go on" in message.text


@cannot(console=NO_ADDRESSES)
async def test_links_in_a_table_keep_their_addresses(bot: Bot) -> None:
    bot.script.says = lambda _: "| name | where |\n|---|---|\n| small | [here](https://example.org/a_b_c)<br>or there |"
    await bot.ask(bot.private(), "Where?")
    [message] = bot.messages(bot.private())
    assert message.links == ("https://example.org/a_b_c",)
    assert "<br>" not in message.text
    assert re.search(r"small\W+here or there", message.text)


@cannot(github=OWN_MARKUP, console="a terminal is as wide as its window")
async def test_a_wide_table_is_read_row_by_row(bot: Bot) -> None:
    names = [f"column number {number}" for number in range(12)]
    rows = [[f"cell {row} in column {column}" for column in range(12)] for row in range(3)]
    lines = [names, ["---"] * 12, *rows]
    text = await answered(bot, "\n".join(f"| {' | '.join(line)} |" for line in lines))
    assert max(map(len, text.splitlines())) < 80
    for row in range(3):
        assert text.index(f"cell {row} in column 0") < text.index(f"cell {row} in column 11")
        assert re.search(rf"column number 7: cell {row} in column 7\n", text)


@cannot(bluesky=SHORT_POSTS, github=ONE_COMMENT, console=NO_SPLIT)
async def test_the_words_before_a_long_code_block_stay_with_it(bot: Bot) -> None:
    lines = [f"value_{number} = compute({number})" for number in range(200)]
    bot.script.says = lambda _: "Run this:\n\n```python\n" + "\n".join(lines) + "\n```"
    await bot.ask(bot.private(), "How?")
    messages = bot.messages(bot.private())
    assert len(messages) > 1
    assert messages[0].text.startswith("Run this:")
    assert "value_20 =" in messages[0].text
    assert [line for message in messages for code in message.code for line in code.splitlines() if line] == lines


@cannot(mastodon=LINKED_ONCE, console=NO_ADDRESSES)
async def test_the_sources_of_an_answer_with_many_links_keep_theirs(bot: Bot) -> None:
    bot.script.citations = [
        Citation(n, str(n), "docs", f"Page {n}", "p.md", f"https://e.org/{n}") for n in range(1, 13)
    ]
    bot.script.says = lambda _: " ".join(f"Sentence **{n}** [{n % 12 + 1}]." for n in range(90))
    await bot.ask(bot.private(), "How?")
    links = [link for message in bot.messages(bot.private()) for link in message.links]
    assert len(links) == 90 + 12
    assert set(links[-12:]) == {citation.url for citation in bot.script.citations}


@pytest.mark.parametrize(
    "text",
    [
        "Install @types/node and @babel/core, or write to a.b@example.org.",
        r"The area is \(x*y\), not \(x_1*y_2\).",
        "It costs 2 * 3 * 4, by _private_name_ and *args.",
        "first\nsecond\nthird",
    ],
)
@runs_in_terminal
async def test_what_is_no_markup_can_be_copied(bot: Bot, text: str) -> None:
    markdown = text.replace("\n", "<br>").replace("_private_name_", r"\_private_name\_").replace("*args", r"\*args")
    bot.script.says = lambda _: markdown
    await bot.ask(bot.private(), "How?")
    [message] = bot.messages(bot.private())
    plain_text = re.sub(r"[`\\]", "", message.text)
    for words in re.split(r"\n|\\[()]", text):
        assert words.strip() in plain_text
    if "@" in text and bot.platform not in ("terminal", "console"):
        assert "\u2060" not in message.raw


@runs_in_terminal
async def test_emphasis_beside_full_width_characters_is_seen(bot: Bot) -> None:
    text = await answered(bot, "这是**“重要”**的内容，**注意：**请看**《手册》**第一章。")
    for words in ("重要", "注意：", "《手册》", "第一章"):
        assert words in text
    own = {
        "discord": "**“重要”**的内容，**注意：**请看**《手册》**第",
        "slack": "*“重要”*的内容，*注意：*请看*《手册》*第",
    }
    assert own.get(bot.platform, "“重要”的内容，注意：请看《手册》第") in text


@runs_in_terminal
async def test_code_spans_may_hold_backticks(bot: Bot) -> None:
    text = await answered(bot, "Write `` a`b `` and ``x`` and `` `y` ``.")
    assert re.search(r"Write `{0,2}a[`ʹ]b", text)
    assert re.search(r"[`ʹ]y[`ʹ]", text)


@runs_in_terminal
async def test_stars_that_are_no_marks_make_nothing_bold(bot: Bot) -> None:
    bot.script.says = lambda _: r"Literal \*x\* and \_y\_ done."
    await bot.ask(bot.private(), "How?")
    [message] = bot.messages(bot.private())
    assert "Literal *x* and _y_ done." in message.text
    if bot.platform == "slack":
        assert not re.search(r"(?<!\w)\*x\*|(?<!\w)_y_", message.raw)


@runs_in_terminal
async def test_a_link_to_anything_but_the_web_is_none(bot: Bot) -> None:
    bot.script.says = lambda _: "See [this](javascript:alert(1)) and [that](tg://user?id=7) and [it](slack://open)."
    await bot.ask(bot.private(), "Where?")
    [message] = bot.messages(bot.private())
    assert message.links == ()
    assert "this" in message.text
    assert "that" in message.text


@runs_in_terminal
async def test_citations_are_numbered_links_with_their_sources_below(bot: Bot) -> None:
    bot.script.citations = [
        Citation(1, "a", "docs", "The guide", "guide.md", "https://example.org/guide"),
        Citation(2, "b", "notes", "A note", "note.md", ""),
    ]
    bot.script.says = lambda _: "Install it [1], then run it [2]."
    await bot.ask(bot.private(), "How?")
    [message] = bot.messages(bot.private())
    assert "https://example.org/guide" in message.links
    assert "[1]" in message.text
    assert "[2]" in message.text
    assert "The guide" in message.text.split("then run it")[1]
    assert "note.md" in message.text.split("then run it")[1]


@runs_in_terminal
async def test_titles_and_paths_of_sources_are_data(bot: Bot) -> None:
    title = "<b>@everyone</b> [x](https://evil.example) *t* | <!channel>"
    bot.script.citations = [Citation(1, "a", "docs", title, "a`b|<c>.md", "https://example.org/?x=<y>|z&w")]
    bot.script.says = lambda _: "Install it [1]."
    await bot.ask(bot.private(), "How?")
    [message] = bot.messages(bot.private())
    assert not any("evil.example" in link for link in message.links)
    assert all(link.startswith("https://example.org/") for link in message.links)
    if bot.platform != "console":
        assert bot.driver.get_notified(bot.private()) == []


@pytest.mark.parametrize("streamed", [False, True], ids=["at once", "streamed"])
@cannot(console=NO_BELL)
async def test_mass_mentions_in_an_answer_ring_at_nobody(bot: Bot, streamed: bool) -> None:
    hostile = "@everyone @here @channel <!channel> <!here> <@U1002> <@1002> <@&7002> <!subteam^S1> @person_2 @kimas_bot"
    channel = bot.group()
    bot.script.pieces = [hostile[:end] for end in range(4, len(hostile), 6)] if streamed else []
    bot.script.says = lambda _: f"{hostile}\n\n- {hostile}\n\n> {hostile}\n\n**{hostile}**"
    await bot.ask(channel, "Who is there?")
    assert bot.driver.get_notified(channel) == []
    assert "everyone" in bot.texts(channel)[0]


@cannot(console=NO_BELL)
async def test_mass_mentions_in_a_question_ring_at_nobody(bot: Bot) -> None:
    channel = bot.group()
    bot.script.says = lambda question: f"You asked: {question.text}"
    await bot.ask(channel, "what do @everyone @here <!channel> and @channel mean?")
    assert bot.driver.get_notified(channel) == []
    assert "everyone" in bot.texts(channel)[0]


@runs_in_terminal
async def test_markup_in_a_question_is_data(bot: Bot) -> None:
    question = "what do <b>x</b> &amp; `a_b` *c* [d](e) ~~f~~ || mean?"
    await bot.ask(bot.private(), question)
    if bot.platform == "slack":
        # What a person types as < and & arrives escaped; this is what arrives when they type &lt;b&gt; and so on.
        assert "`a_b` *c* [d](e) ~~f~~ ||" in bot.script.question_texts[0]
    else:
        assert bot.script.question_texts == [question]
    assert len(bot.messages(bot.private())) == 1


@runs_in_terminal
async def test_html_in_an_answer_is_text(bot: Bot) -> None:
    bot.script.says = lambda _: "Write <b>bold</b> &amp; <T> in\n\n<details>\nthe hidden block\n</details>\n\nthere."
    await bot.ask(bot.private(), "How?")
    [message] = bot.messages(bot.private())
    for piece in ("<b>bold</b> & <T>", "<details>", "the hidden block", "</details>", "there."):
        assert piece in message.text


@pytest.mark.parametrize(
    "text",
    [
        "日本語の質問です。インストール方法は？",
        "مرحبا كيف أقوم بالتثبيت؟ \u200fright to left\u200e",
        "👩‍👩‍👧‍👦 🇩🇪 👍🏽 how? 𝒳",
        "naïve café ﬁ Å e\u0301 \u00a0 ẞ",
    ],
    ids=["japanese", "right to left", "emoji", "accents"],
)
@runs_in_terminal
async def test_any_script_comes_and_goes_unharmed(bot: Bot, text: str) -> None:
    bot.script.says = lambda question: f"**You** said: {question.text}"
    if bot.platform in ("github", "gitlab"):
        # A title has plain spaces.
        text = " ".join(text.split())
    await bot.ask(bot.private(), text)
    assert bot.script.question_texts == [text]
    [output] = bot.texts(bot.private())
    assert text in re.sub(r"(?<=[^\s-])\n(?=\S)", " ", output)


async def test_a_mention_after_wide_characters_is_found(bot: Bot) -> None:
    channel = bot.group()
    entry = await bot.say_and_wait(channel, f"👩‍👩‍👧‍👦𝒳 {bot.driver.mention}how?")
    assert entry.state == "answered"
    assert bot.script.question_texts == ["👩‍👩‍👧‍👦𝒳 how?"]


@pytest.mark.parametrize(("blocks", "lines"), [(6, 30), (1, 250)], ids=["many blocks", "one long block"])
@runs_in_terminal
@cannot(bluesky=SHORT_POSTS, github=ONE_COMMENT)
async def test_a_long_answer_is_split_with_its_code_whole(bot: Bot, blocks: int, lines: int) -> None:
    markdown, code = long_answer(blocks, lines)
    bot.script.says = lambda _: f"{markdown}\n\nThe end."
    await bot.ask(bot.private(), "Tell me everything")
    messages = bot.messages(bot.private())
    # A rich message of Telegram's takes it all, a terminal anything.
    assert len(messages) > 1 or bot.platform in ("console", "telegram")
    results = [line for message in messages for piece in message.code for line in piece.splitlines()]
    if bot.platform == "console":
        results = [line.strip() for line in results if "compute(" in line]
    assert [line for line in results if line.strip()] == code, "no line of code is lost, torn or out of its block"
    assert messages[-1].text.rstrip().endswith("The end.")
    if bot.platform in ("discord", "slack"):
        assert all(message.raw.count("```") % 2 == 0 for message in messages)


@cannot(bluesky=SHORT_POSTS, github=ONE_COMMENT, console=NO_SPLIT)
async def test_a_long_answer_is_split_between_its_paragraphs(bot: Bot) -> None:
    paragraphs = [f"Paragraph {number} begins. " + "word " * 120 + f"Paragraph {number} ends." for number in range(14)]
    bot.script.says = lambda _: "\n\n".join(paragraphs)
    await bot.ask(bot.private(), "Tell me everything")
    messages = bot.messages(bot.private())
    assert len(messages) > 1
    for message in messages:
        assert message.text.startswith("Paragraph")
        assert message.text.endswith("ends.")
    assert "".join("".join(item.text.split()) for item in messages) == "".join(
        "".join(paragraph.split()) for paragraph in paragraphs
    )


@cannot(bluesky=SHORT_POSTS, console=NO_SPLIT)
async def test_a_word_without_end_is_split_and_lost_nowhere(bot: Bot) -> None:
    word = "".join(f"x{number}" for number in range(2500))
    bot.script.says = lambda _: word
    await bot.ask(bot.private(), "Tell me everything")
    assert "".join(bot.texts(bot.private())) == word


@cannot(bluesky=SHORT_POSTS, github=ONE_COMMENT, console=NO_SPLIT)
async def test_the_parts_of_a_long_answer_stay_in_one_chat_and_in_order(bot: Bot) -> None:
    thread = await bot.driver.thread(bot.group())
    bot.script.says = lambda _: "\n\n".join(f"{number}. " + "word " * 150 for number in range(12))
    await bot.ask(thread, "Tell me everything")
    numbers = [int(results) for message in bot.messages(thread) for results in re.findall(r"(\d+)\.", message.text)]
    assert numbers == list(range(12))
    assert len(bot.messages(thread)) > 1


@cannot(console="below the heading nothing is printed, which says as much")
async def test_an_empty_answer_says_so(bot: Bot) -> None:
    assert await answered(bot, "   \n\n") == "(an empty answer)"


@cannot(mastodon=POSTED_WHOLE, github=POSTED_WHOLE, console=WHOLE)
async def test_a_streamed_answer_ends_as_one_message(bot: Bot) -> None:
    channel = bot.group()
    bot.script.pieces = ["It", "It begins", "It begins **well", "It begins **well** and"]
    bot.script.pause_s = 0.06
    bot.script.says = lambda _: "It begins **well** and ends."
    message = await bot.driver.say(channel, f"{bot.driver.mention}How?")
    await until(lambda: bool(bot.messages(channel)), "the beginning of the answer")
    assert "ends" not in bot.texts(channel)[0]
    await bot.wait_until_finished(channel, message)
    [output] = bot.messages(channel)
    assert output.text.replace("*", "") == "It begins well and ends."


@cannot(
    mastodon=POSTED_WHOLE, github=POSTED_WHOLE, console="somebody may be typing: nothing is printed before the answer"
)
async def test_the_first_sign_comes_before_the_answer(bot: Bot) -> None:
    for channel in (bot.private(), bot.group()):
        signs = bot.driver.signs()
        bot.script.midway = None
        bot.script.pause_s = 0.1
        bot.script.pieces = [""]
        await bot.ask(channel, "How?")
        assert bot.driver.signs() > signs


@pytest.mark.parametrize("question", ["How does it work?", "它是怎么工作的？"])
@cannot(github=ONE_COMMENT, console=WHOLE)
async def test_an_answer_that_is_far_too_long_is_cut_and_says_so(bot: Bot, question: str) -> None:
    channel = bot.private()
    paragraph = "of words and more words " * 10 + "[1]"
    bot.script.citations = [
        Citation(1, "p1", "docs", "Kept", "a.md", "https://example.org/a"),
        Citation(2, "p2", "docs", "Lost", "b.md", "https://example.org/b"),
    ]
    bot.script.says = lambda _: f"```\n{'code' * 3}\n```\n\n" + "\n\n".join([paragraph] * 3500) + "\n\nThe end [2]."
    bot.script.pieces = [bot.script.says(Question(""))]
    started_at = time.monotonic()
    assert (await bot.ask(channel, question)).state == "answered"
    assert time.monotonic() - started_at < 25
    texts = bot.texts(channel)
    assert 3 <= len(texts) <= 12
    note = "The answer is too long to show in full" if question[0] == "H" else "回答太长"
    assert note in "".join(texts[-2:])
    assert "Kept" in texts[-1]
    assert "Lost" not in texts[-1]


def test_a_text_is_cut_between_paragraphs_and_its_code_is_closed() -> None:
    assert cut_markdown("short", 10, "(cut)") == "short"
    assert cut_markdown("one two\n\nthree four five", 14, "(cut)") == "one two\n\n(cut)"
    assert cut_markdown("words " * 10, 20, "(cut)") == "words words words\n\n(cut)"
    assert cut_markdown("a" * 30, 20, "(cut)") == "a" * 20 + "\n\n(cut)"
    code = "```py\nfirst = 1\n" + "more = 2\n" * 10 + "```\n"
    assert cut_markdown(code, 40, "(cut)") == "```py\nfirst = 1\nmore = 2\nmore = 2\n```\n\n(cut)"
    assert cut_markdown("~~~~\nx\n~~~~\n\nwords of it " + "y" * 40, 30, "(cut)").endswith("words of it\n\n(cut)")
