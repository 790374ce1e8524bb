"""The Chinese texts."""

from __future__ import annotations

from collections.abc import Mapping

from core.catalogue.en import English
from core.catalogue.zh_platforms import ChinesePlatformTexts
from core.catalogue.zh_silence import SKIP_PHRASES, SKIP_REASONS
from core.types.messages import DROP, POST, RETRY


class Chinese(ChinesePlatformTexts, English):
    """The texts in Chinese."""

    language = "zh"

    # Answers and what came of them
    extractive = "*以上内容摘自资料原文；当前没有配置语言模型。*"
    fallback = "*语言模型暂时无法回答，以上内容摘自资料原文。*"
    answer_interrupted = "*回答不完整：语言模型中途停止了。*"
    answer_too_late = "*回答不完整：时间用完了。*"
    answer_too_long = "*回答不完整：已达到语言模型的长度上限。*"
    answer_filtered = "*回答不完整：被语言模型的过滤器中止了。*"
    answer_stopped = "*已应要求停止。*"
    search_timed_out = "资料检索超时，请稍后再问一次。"
    not_read_yet = "我还没有读完资料（{sources}），暂时无法回答，请稍后再问一次。"
    no_evidence = (
        "在我所知的资料（{sources}）中没有找到相关内容。"
        "如果问题与这些资料有关，请换个说法：想做什么、用的命令或设置项、报错原文。"
    )
    no_evidence_foreign = (
        "在我所知的资料（{sources}）中没有找到相关内容。这些资料的语言是 {language}，"
        "而我没有可以翻译问题的语言模型：请用 {language} 提问。"
    )
    foreign_sources = (
        "*这些资料的语言是 {language}，而我没有可以翻译问题的语言模型，以上内容可能答非所问：请用 {language} 提问。*"
    )
    checked_answer = "*上面有一处引用不成立。核对来源之后的回答：*"
    uncited = "*这个回答没有标明出处，请自行核实。*"
    unknown_names = "*在我所知的代码中没有找到，请核对：{names}*"
    nearest_pages = "在我所知的资料中没有找到直接的答案。下面这些页面与问题最接近：\n\n{pages}"
    see_also = "另见：{pages}"
    no_sources = "尚未配置"
    llm_failed = "语言模型暂时无法回答，请稍后再试。"
    llm_failed_pages = "语言模型暂时无法回答，请稍后再试。下面这些页面与问题最接近：\n\n{pages}"
    answer_failed = "抱歉，这个问题我没能回答。{reason}"
    service_unavailable = "我依赖的某项服务暂时不可用，请过几分钟再问。"
    rights_changed = "回答期间，有人更改了我在这里可以说的内容。请再问一次。"
    answer_withheld = "这个问题我不能回答。"
    internal_error = "我这边出了问题，详情已记录在后台日志中。"
    posted_again = "Slack 没有确认是否已送达，因此再发一次。"
    answer_cut = "*回答太长，这里放不下：以上是开头部分。*"
    images_unsupported = "*我看不到图片，以上仅根据你的文字回答。*"
    image_failed_text_only = "*图片读取失败，以上仅根据你的文字回答。*"
    image_failed = "图片读取失败。请把图中的内容写出来，或稍后再试。"
    images_left_out = "*{total} 张图片中，我看了前 {count} 张。*"
    images_exhausted = "你最近发的图片太多，我暂时不能再看；请在 {wait}后再发。"
    attachment_unsupported = "*我读不了附件，以上仅根据你的文字回答。*"
    file_unread = "*我没有读 {name}：{problem}。*"
    file_problems: Mapping[str, str] = {
        "too_large": "文件超过 4 MB",
        "locked": "文件有密码保护",
        "no_text": "文件没有文字，例如是扫描件",
        "binary": "它既不是文本也不是 PDF",
        "no_model": "读文件需要语言模型",
        "failed": "文件无法取得或读取",
    }
    file_read_partly = "*{name} 共 {total} 行，我读了其中 {count} 行：报错、与问题相关的内容以及首尾。*"
    files_left_out = "*{total} 个文件中，我读了前 {count} 个。*"
    picture = "我看不到图片。请把图中的内容写出来，例如报错信息的文字。"
    voice = "我听不了语音消息。请把问题写成文字。"
    heard = "我听到的是：“{words}”"
    speech_unclear = "我没听懂这条语音消息：{problem}。请把问题写成文字。"
    speech_problems: Mapping[str, str] = {
        "too_long": "超过三分钟",
        "too_large": "超过 10 MB",
        "not_audio": "不是我认识的音频格式",
        "not_fetched": "无法取得",
        "failed": "现在无法转成文字",
        "late": "转成文字花的时间太长",
        "empty": "听不出任何话",
    }
    video = "我看不了视频。请把问题写成文字。"
    file = "我读不了附件。请把问题写成文字，并贴上相关的几行内容。"
    other = "我只能读文字。请把问题写出来。"
    quota_exceeded = "今天{whose}的用量已达上限（{allowed}）。请在午夜（{midnight}）之后再问，还有 {wait}。"
    quota_reserved = "今天{whose}剩余的用量（上限 {allowed}）已被正在生成的回答占用，请稍后再问。"
    everybody = ""
    this_chat = "本聊天"
    you = "你"
    tokens = "{amount} 个 token"
    hours = "{hours} 小时 {minutes} 分钟"
    minutes = "{minutes} 分钟"

    # Feedback, another try, calling people, learning
    rated_up = "谢谢，已记录：👍 {up} · 👎 {down}。再次选择同一项可撤回。"
    rated_down = "已记录，谢谢：👍 {up} · 👎 {down}。再次选择同一项可撤回。"
    rating_removed = "已撤回：👍 {up} · 👎 {down}。"
    ask_reason = "问题出在哪里？"
    reason_noted = "已记录，谢谢。"
    unknown_answer = "我不确定这指的是我的哪个回答，未作任何更改。"
    retrying = "我会多花些时间，再试一次。"
    already_retried = "这个问题我已经重答过一次，不能再重答了。"
    only_asker = "只有提问者可以要求重答。"
    question_erased = "我已不再保存这个问题，请重新提问。"
    answer_unfinished = "这个回答还没有写完。"
    stop_button = "⏹ 停止"
    stopping = "正在停止这个回答。"
    only_asker_stops = "只有提问者可以停止这个回答。"
    nothing_to_stop = "这个回答已经写完，不需要停止。"
    retry_disabled = "这里没有开启重答。"
    calling_people = "我正在请人来帮忙。"
    handoff = "{author} 需要各位的帮助。"
    nobody_configured = "这里没有可以联系的人。"
    ask_by_command = "在这个聊天里，回答只给提问者看。请用命令 `/ask` 提问。"
    private_chat = "这个聊天里没有其他人，请到群里提问。"
    already_handed_off = "已经为这个问题请过人了。"
    handoff_cooldown = "刚刚已在这里请过人，请稍等几分钟。"
    question_unclear = "我不清楚你指的是哪个问题。请回复那条消息，或把问题写在命令后面。"
    answer_submitted = "谢谢，已存为第 {number} 条回答，等待审核。"
    answer_known = "这个回答我已经有了。用 `/faq` 可以查看待审核的回答。"
    learn_own_words = "那是我自己说的话。请用 `/learn` 回复别人写的内容。"
    first_answer_stands = "我又试了一次，没有找到更好的内容：仍以第一次的回答为准。"
    not_trusted = "只有受信任的成员可以教我。"
    learn_usage = "请用 `/learn` 回复那条回答，或在命令后附上它的链接；如果它没有回复任何问题，请再写上问题。"
    learn_question_missing = (
        "我不清楚那回答的是哪个问题。请把问题也写上：用 `/learn QUESTION` 回复那条回答，或写 `/learn LINK QUESTION`。"
    )
    buttons: Mapping[str, str] = {
        "wrong": "有误",
        "outdated": "已过时",
        "other": "答非所问",
        "unclear": "看不懂",
        RETRY: "🔁 再试一次",
    }
    # 草稿
    draft = (
        "**草稿 {number}**，给 {chat} 的 {author}（消息 {message}）：\n\n{question}\n\n---\n\n{answer}\n\n---\n\n"
        "{post} 发出，{drop} 放弃。要发别的内容，请直接回复。"
    )
    draft_note = "草稿 {number}：{note}。"
    draft_lost = "没有发出：{reason}"
    draft_question_edited = "问题改成了 {question}"
    draft_unknown = "这里没有等待决定的草稿 {number}。"
    draft_blocked = "草稿 {number} 不能发出：{reason}。"
    mode_for_asker = "这个聊天里的回答只给提问者看（`chats.<chat>.answers`），所以没有人问时我不会回答。"
    mode_draft_impossible = (
        "这里不能有草稿。草稿需要一个团队的聊天，由配置中的 `gate.drafts_to` 指定，或为单个聊天用 "
        "`chats.<chat>.drafts_to` 指定；请在那个聊天以外的群组里使用 `/mode draft`。"
    )
    draft_platform_away = "那个平台现在没有连接"
    draft_decisions: Mapping[str, str] = {
        POST: "正在发出草稿 {number}。",
        "edit": "正在用你的话发出草稿 {number}。",
        DROP: "已放弃草稿 {number}，不回答任何人。",
    }
    draft_buttons: Mapping[str, str] = {POST: "✅ 发出", DROP: "🗑 放弃"}
    complaints: Mapping[str, str] = {
        "": "这个回答没有帮到我。",
        "wrong": "这个回答有误。",
        "outdated": "这个回答已经过时。",
        "other": "我问的不是这个。",
        "unclear": "这个回答我看不懂。",
    }

    # Offers and notices of the gate
    answer_limit = "十分钟内我已经回答了你 {count} 次，先到这里；请过几分钟再问。"
    offer = "我可能知道一些相关内容{topic}。回复这条消息或者提及我，我就来回答。"
    offer_topic = "（{topic}）"
    clarifying_question = "你问的是{topic}吗？请回复这条消息，补充一些细节（版本、报错信息、想做什么），我来回答。"
    unnamed_topic = "我所了解的内容"
    answered_before = (
        "这个问题在本群里已经回答过了（{elapsed}前）：\n\n> {excerpt}\n\n回复这条消息或者提及我，可以了解更多。"
    )

    # Amounts, times, and placeholders for nothing
    moment = "{date}，{weekday}，{time}"
    weekdays = "星期一 星期二 星期三 星期四 星期五 星期六 星期日"
    days_short = "{amount} 天"
    hours_short = "{amount} 小时"
    minutes_short = "{amount} 分钟"
    seconds_short = "{amount} 秒"
    ago = "{duration}前"
    just_now = "刚刚"
    ahead = "{duration}后"
    until = "到 {moment} UTC 为止"
    until_resumed = "直到恢复为止"
    no_text = "（空）"
    no_cost = "无记录"
    nothing = "无"
    nobody = "无"
    none = "无"

    # What cannot be done, and why
    question_empty = "问题是空的。请写几个字，例如：怎么安装？"
    question_too_long = "问题有 {length} 个字符，最多 {allowed} 个。请缩短，但保留报错信息和你试过的办法。"
    only_owners = "只有本机器人的所有者可以这样做。"
    only_admins = "只有本机器人在这里的管理员可以这样做。"
    only_reviewers = "只有本机器人的所有者，以及他们为本聊天指定的人，可以决定这件事。"
    unknown_command = "我不认识 `/{name}`。我能听懂：{commands}。"
    near_command = "我不认识 `{name}`。你是想用 {command} 吗？如果这是问题，请写 {ask}。"
    argument_missing = "缺少 `{name}`。写法：{usage}。"
    too_many_arguments = "参数太多。写法：{usage}。"
    choice_expected = "`{name}` 须为 {choices} 之一。写法：{usage}。"
    number_expected = "`{name}` 须为数字{bounds}{choices}。写法：{usage}。"
    whole_number_expected = "`{name}` 须为整数{bounds}{choices}。写法：{usage}。"
    bounds = "（{min} 到 {max}）"
    or_choice = "，或 `{choice}`"
    unknown_source = "没有这个名字的资料源。现有：{sources}。"
    no_sources_configured = "尚未配置任何资料源"
    source_missing = "哪个资料源？写法：`/sources {action} NAME`。"
    factor_missing = "权重是多少？写法：`/sources scale NAME X`；正常权重为 1。"
    limit_missing = "改成多少？写法：`/quota {name} NUMBER`，也可以写 `none` 或 `default`。"
    limit_invalid = "上限必须大于 0，token 数须为整数。用 `none` 可取消上限。"
    refresh_unavailable = "我在这里不能更新资料源：请用 `kimas run`，或手动运行 `kimas ingest`。"
    refresh_too_soon = "{elapsed}前已经请求过更新。请在 {wait}后再试。"
    pause_unavailable = "我在这里不更新资料源：请用 `kimas sources pause NAME` 和 `resume NAME`，效果相同。"
    reload_unavailable = "我在这里不能重新读取配置，请重启我。"
    search_unavailable = "我在这里不能检索资料：请在命令行用 `kimas feedback --calibrate` 来校准。"
    admins_in_private = "请在群里这样做：管理员只属于一个聊天。"
    user_id_expected = (
        "请给出用户的 ID（数字或代码；在 Mastodon 上为带服务器的名字，在 GitHub 和 GitLab 上为登录名）；"
        "名字可能会被别人占用。"
    )
    form_failed = (
        "表单没能打开：{error}。未作任何更改。请再发一次命令；`/mode`、`/threshold` 和 `/sources` 可以更改同样的内容。"
    )

    # Courtesies, what the bot is, /help, /forget
    greeting = "你好！我是 {name}。有问题请直接问，我会根据以下资料回答：\n\n{sources}"
    you_are_welcome = "不客气！"
    goodbye = "再见！"
    self_description = "{intro}\n\n{sources}\n\n{how_to_ask}{help} 会列出我的命令。"
    help_intro = "我是 {name}。我根据以下资料回答问题，并注明每句话的出处："
    help_no_sources = "- 尚未配置任何资料源"
    help_how_to_ask = "可以在私聊里问我；在群里请提及我、回复我的消息，或者在 {ask} 后面写上问题。"
    help_commands = "我还能听懂："
    nothing_to_forget = "没有需要忘记的内容：你在本聊天里说的话，我什么都没有保存。"
    forgotten = "已忘记：你在本聊天里的 {count}，以及我对它们的回答。平台上显示的内容会保留，直到你在那里删除。"
    message_count_one = "1 条消息"
    message_count = "{count} 条消息"

    # /pause, /resume, /mode, /threshold, /admins
    paused = "我在本聊天里保持沉默，{until}。命令仍然有效；用 `/resume` 可以恢复发言。"
    not_paused = "我在本聊天里没有处于暂停状态。"
    resumed = "我已在本聊天里恢复发言。"
    mode_shown = "本聊天的模式是 `{mode}`，配置中为 `{configured}`。"
    mode_changed = "本聊天的模式现在是 `{mode}`，之前是 `{before}`。"
    threshold_shown = "本聊天的阈值是 {threshold}，配置中为 {configured}。"
    threshold_changed = "本聊天的阈值现在是 {threshold}，之前是 {before}。"
    already_admin = "{user} 已经是我在本聊天里的管理员。"
    admin_added = "{user} 现在可以在本聊天里管理我。"
    no_admin = "{user} 不是我在本聊天里的管理员。"
    admin_removed = "{user} 不再能在本聊天里管理我。"
    admin_removed_everywhere = "{user} 不再能在任何聊天里管理我。"
    no_admin_anywhere = "{user} 不是我在任何聊天里的管理员。"
    admins_listed = "- 为本聊天指定：{names}\n- {platform_admins}\n- 配置中的所有者：{owners} 位"
    platform_admins_allowed = "聊天自己的管理员也算我的管理员"
    platform_admins_denied = "聊天自己的管理员不算我的管理员（administration.platform_admins）"

    # /threshold auto
    threshold_fitted = "本聊天的阈值现在是 {fitted}，之前是 {current}。"
    threshold_proposed = "本聊天的阈值建议改为 {fitted}，现在是 {current}。"
    threshold_best = "本聊天的阈值仍为 {current}：它最符合评价过的问题。"
    threshold_no_better = "本聊天的阈值仍为 {current}。{fitted} 最符合评价过的问题，但在未参与校准的问题上并没有更好。"
    rated_questions = "- 评价过的问题：应回答 {answer} 个，不应回答 {ignore} 个{by_words}"
    decided_by_words = "，其中 {count} 个单凭措辞就能判定"
    scores_current = "- 阈值 {threshold}：{scores}"
    scores_fitted = "- 校准后，在未参与校准的问题上：{scores}"
    scores = "精确率 {precision}，召回率 {recall}"
    interval = "{value}（{low} 到 {high}）"

    # /why
    nothing_answered = "我不记得在这里回答过什么。"
    message_unknown = "我不知道那条消息：它没有到达我这里，或者已被删除。"
    message_received = "那条消息正在等待回答。"
    message_answering = "那条消息正在回答中。"
    message_sending = "那条消息的回答正在发送。"
    message_drafted = "那条消息的回答正在等团队决定。"
    silent_because = "我没有说话，原因是：{reason}。"
    skip_reasons: Mapping[str, str] = SKIP_REASONS
    skip_phrases: Mapping[str, str] = SKIP_PHRASES
    no_reason = "没有记录原因"
    message_failed = "那条消息没能回答：{reason}。"
    reason_in_log = "原因记在后台日志里"
    answer_forgotten = "那条消息已经回答过，但回答已被删除。"
    no_search = "那次回答没有用到检索。"
    trace_strategy = "- 检索方式：{strategy}"
    trace_agents = "- 询问了：{agents}"
    trace_saved = "；没有询问 {count} 个"
    trace_no_agent = "无"
    trace_query = "- 查询：{query}"
    trace_cited = "- 引用了：{sources}"
    trace_time = "- 用时：{times}"
    trace_no_time = "没有记录"
    trace_total = "共 {total}，其中 "
    trace_searched = "- 检索了：{queries}；所得依据的质量：{quality}{reason}"
    trace_reason = "，因为：{reason}"
    trace_cut = "- 因时间不够或服务不可用而简化的步骤：{stages}"
    cut_late = "（超时）"
    cut_failed = "（失败）"
    cut_unreadable = "（回复无法理解）"
    cut_stopped = "（应要求停止）"
    trace_usage = "- 消耗：读入 {read} 个 token，写出 {written} 个{cost}"
    trace_cost = "，费用 {cost}"
    trace_dropped = "- 因原文并未如此说明而去掉的引用：{count}"
    trace_moved = "- 改为指向更合适原文的引用：{count}"
    trace_opinion = "- 没有人叫我；模型判断我能帮上忙：{reason}"
    trace_cached = "- 沿用了之前对同一问题的回答"

    # /faq
    no_pending_answers = "没有待审核的回答。"
    pending_answers = "这些回答等待审核："
    pending_answer = "- **{number}** {question}，来自 {teacher}：{answer}"
    somebody = "某人"
    more_answers = "另有 {count} 条。"
    show_whole_answer = "用 `/faq list NUMBER` 可以查看全文。"
    no_such_answer = "这里没有第 {number} 条回答。用 `/faq list` 可以查看待审核的回答。"
    new_answer_missing = "请在编号后面写上新的回答。"
    answer_edited = "已修改，等待审核。"
    answer_approved = "已通过。"
    answer_rejected = "已拒绝。"
    no_learned_source = "目前还用不上：没有 `learned` 类型的资料源接收来自那里的回答（docs/feedback.md）。"
    pending = "待审核"
    approved = "已通过"
    rejected = "已拒绝"

    # /sources, /refresh, /pause SOURCE, /quota, /reload
    all_sources = "所有资料源"
    refreshing = "我正在更新 {source}。用 `/sources` 可以查看进展。"
    source_paused = "从现在起，{source} 只在有人要求时更新：`/refresh {name}`。用 `/resume {name}` 恢复。"
    source_paused_already = "{source} 已经是只在有人要求时更新：`/refresh {name}`。用 `/resume {name}` 恢复。"
    source_not_paused = "{source} 没有被暂停。"
    source_resumed = "{source} 恢复按计划更新；错过的更新现在补一次。"
    source_weighs = "{source} 的内容现在权重为 {factor}。"
    source_off = "从现在起，{source} 不再用于回答。"
    source_on = "从现在起，{source} 用于回答。"
    sources_none = "尚未配置任何资料源。"
    sources_listed = "我根据以下资料回答："
    source_unknown_state = "实时查询，或保存在别处"
    source_amount = "{documents}，共 {passages}"
    source_unfilled = "其中 {count} 个目前只能按词查找"
    source_unfilled_because = "其中 {count} 个只能按词查找，因为嵌入模型出错：{error}"
    passage_count_one = "1 个段落"
    passage_count = "{count} 个段落"
    document_count_one = "1 份文档"
    document_count = "{count} 份文档"
    source_refreshed = "{age}更新"
    source_never_refreshed = "还没有更新过"
    source_refreshing = "正在更新"
    source_reading = "正在更新：已读取 {total} 份文档中的 {done} 份"
    time_left = "还需 {duration}"
    source_failed = "上次更新失败"
    source_failed_because = "上次更新失败：{error}"
    source_on_request = "只在有人要求时更新"
    source_switched_off = "，**已停用**"
    source_weight = "，权重 {factor}"
    limits_listed = "每日上限，以及今天的用量："
    no_limit = "无上限"
    set_by_command = "（由命令设置）"
    default_for_paid_model = "（付费模型的默认值）"
    used_overall = "，已用 {amount}"
    used_in_chat = "，本聊天已用 {amount}"
    used_by_you = "，你已用 {amount}"
    configuration_invalid = "未作任何更改，因为配置有错误："
    configuration_unchanged = "配置没有变化。命令所做的设置继续优先生效。"
    configuration_reloaded = "配置已重新读取。"
    reloaded_elsewhere = "其他守护进程几秒内会重新读取各自的配置文件，未能生效的内容见它们的日志。"
    changed_now = "- 已生效：{names}"
    restart_needed = "- 需要重启：{names}"
    sources_added = "- 正在后台读取：{names}；用 `/sources` 可以查看进展"
    sources_missing = "- 文件夹或文件目前不存在，因此无法更新：{names}"
    restart_replaced = "- 这个名称之前属于另一个资料源，因此需要重启：{names}"
    restart_secrets = "- 有新的密钥，重启后才能在日志中隐去：{names}"
    kept_for_owners = "- 重启前只对所有者公开：{names}"
    restart_unnamed = "- 还有内容需要重启，我只在私聊里说明：请在私聊里使用 `/reload`"
    kept_closed = "- 重启前仍对部分人不公开：{names}"

    # /status, /stats, /audit
    in_all_chats = "（所有聊天）"
    in_this_chat = "（本聊天）"
    status_version = "- 版本 {version}，已运行 {duration}"
    status_platforms = "- 平台：{platforms}"
    status_platform = "{platform}（上次收到消息：{age}）"
    status_not_heard = "还没有收到"
    status_today = "- 今天{chat}：回答 {answered}，沉默 {silent}，失败 {failed}，等待 {pending}"
    status_cost = "- 今天的 token：{tokens}，费用：{cost}"
    source_hits = "- 自 {day} 起用到各资料源的回答中，引用了它的有：{sources}"
    status_moderation = "- 审核：{platforms} 上的回答在发出前经过审核"
    status_moderation_failed = (
        "- 审核：上一个回答未能审核：{error}；这类回答在以下平台扣下：{withheld}；照常发出：{passed}"
    )
    status_chat = "- 本聊天：模式 `{mode}`"
    status_paused = "，已暂停，{until}"
    status_sources = "- 资料源：已配置 {count} 个"
    status_sources_well = "- 资料源：共 {count} 个，全部正常，{passages}"
    status_unfilled = "- 语义：目前有 {count} 个段落只能按词查找"
    status_unfilled_because = "- 语义：有 {count} 个段落只能按词查找，因为嵌入模型出错：{error}"
    status_sources_failed = "- 资料源：{count} 个中有 {failed} 个上次更新失败：{errors}"
    digest_messages = "- 消息：{messages} 条，其中回答 {answered}，未发言 {silent}，失败 {failed}"
    digest_ratings = "- 评价：👍 {up}，👎 {down}"
    digest_cost = "- token：{tokens}，费用：{cost}"
    digest_unanswered = "**没有好答案的问题：{count} 个**，按含义归类。可用 `/learn` 和 `/faq` 教我。"
    digest_all_answered = "这段时间没有缺少好答案的问题。"
    gap_earlier = "上期 {count}"
    gap_page = "；最接近的页面：{page}"
    gap_answered = "✅ {question}：此后已有回答，{count} 次"
    gap_quiet = "💤 {question}：自 {day} 起没有人再问"
    statistics_none = "自 {day} 以来没有任何消息{chat}。"
    statistics_since = "自 {day} 起{chat}："
    statistics_header = "| 日期 | 消息 | 回答 | 沉默 | 失败 | token | 费用 |"
    audit_empty = "审计记录是空的。"
    audit_chat = "，在 {chat}"
    audit_outcomes: Mapping[str, str] = {"changed": "已更改", "refused": "被拒绝", "failed": "失败"}

    # What the menus and /help say about the commands and their arguments
    command_summaries: Mapping[str, str] = {
        "ask": "提问，例如：怎么安装？",
        "help": "这个机器人知道什么，怎样提问",
        "sources": "我知道哪些资料、有多少、多新；所有者可以启用、停用或调整权重",
        "why": "解释我在这里的上一个回答，或所回复的那条消息",
        "forget": "忘记你在本聊天里对我说的话和我的回答",
        "escalate": "请人来帮忙：用它回复那个问题，或把问题写在后面",
        "start": "我是谁，怎样提问",
        "status": "我的状态：平台、资料源、今天的回答和费用",
        "refresh": "立即更新一个资料源，或全部",
        "pause": "在本聊天里沉默一段时间；加上资料源的名称，则它只在有人要求时更新",
        "resume": "在本聊天里恢复发言；加上资料源的名称，则它恢复按计划更新",
        "mode": "我在本聊天里何时发言：从不（off）、被提及时（mention）、也会主动发言（auto）、先由团队审阅（draft）",
        "threshold": "auto 模式下：要有多大把握才在本聊天里发言",
        "stats": "每天的问题、回答、token 和费用",
        "digest": "最近一周小结：回答、评价、费用，以及没有好答案的问题",
        "quota": "查看每日上限；所有者可以更改",
        "admins": "谁可以在本聊天里使用这些命令；所有者可以增减人员",
        "learn": "把所回复或所链接的消息存为待审核的回答（须受信任）",
        "faq": "成员给出的回答：列出待审核的，通过、拒绝或修改其中一条",
        "post": "把草稿发到提问的地方",
        "edit": "用你的话代替草稿发出",
        "drop": "放弃草稿，不回答任何人",
        "settings": "用菜单查看和更改本聊天的设置",
        "reload": "重新读取配置",
        "audit": "谁改了什么，谁被拒绝",
    }
    argument_summaries: Mapping[str, str] = {
        "ask question": "你的问题",
        "sources action": "要做什么；不写则列出全部",
        "sources source": "资料源",
        "sources factor": "用于 scale：内容的权重，0.1 到 10",
        "why message": "本聊天里另一条消息的 ID 或链接",
        "escalate question": "问题；不写则指所回复的问题，或你的上一个问题",
        "refresh source": "资料源；不写则指全部",
        "pause minutes": "多长时间；不写则直到恢复为止",
        "pause source": "不再按计划更新的资料源",
        "resume source": "资料源；不写则指本聊天",
        "mode mode": "default 恢复为配置中的值",
        "threshold value": "0 到 1；default 恢复为配置中的值，auto 按这里的评价校准",
        "stats days": "多少天，含今天；不写则为 7",
        "digest days": "多少天，含今天；不写则为 7",
        "quota limit": "要更改的上限；不写则显示全部",
        "quota value": "数字、none，或 default 恢复为配置中的值",
        "admins action": "要做什么；不写则列出全部",
        "admins user": "用户的 ID（数字或代码；在 Mastodon 上为带服务器的名字，在 GitHub 和 GitLab 上为登录名）",
        "learn question": "未回复任何消息时，写上回答的链接；该回答未回复任何问题时，再写上问题",
        "faq action": "要做什么；不写则列出全部",
        "faq number": "回答的编号",
        "faq text": "用于 edit：新的回答",
        "post number": "草稿的编号",
        "edit number": "草稿的编号",
        "edit text": "要发出的话",
        "drop number": "草稿的编号",
        "audit entries": "多少条；不写则为 10",
    }


MESSAGES = Chinese()
